"""Language tags, as files write them: `de`, `de-DE`, `DE_at`, `deu`, `ger`. What counts is the first subtag, in any case.

BCP 47 writes a language with the shortest code that it has (RFC 5646, section 2.2.1). Much software writes three letters
all the same, and for twenty languages there are two such codes, of the name in the language itself (`deu`) and of the
English name (`ger`).
"""

from __future__ import annotations

CODES = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bh:bih "
    "bi:bis bm:bam bn:ben bo:bod:tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces:cze cu:chu cv:chv "
    "cy:cym:wel da:dan de:deu:ger dv:div dz:dzo ee:ewe el:ell:gre en:eng eo:epo es:spa et:est eu:eus:baq fa:fas:per "
    "ff:ful fi:fin fj:fij fo:fao fr:fra:fre fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb hi:hin "
    "ho:hmo hr:hrv ht:hat hu:hun hy:hye:arm hz:her ia:ina id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl:ice it:ita "
    "iu:iku ja:jpn jv:jav ka:kat:geo kg:kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur "
    "kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri:mao "
    "mk:mkd:mac ml:mal mn:mon mr:mar ms:msa:may mt:mlt my:mya:bur na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld:dut "
    "nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus pt:por qu:que "
    "rm:roh rn:run ro:ron:rum ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin sk:slk:slo sl:slv sm:smo sn:sna "
    "so:som sq:sqi:alb sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl "
    "tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol "
    "xh:xho yi:yid yo:yor za:zha zh:zho:chi zu:zul"
)
"""ISO 639-1: ISO 639-2, for terminology and, where it is another one, for bibliography; all languages that have a code of two
letters in the list of the registration authority (https://www.loc.gov/standards/iso639-2/)."""
OTHERS = {"cmn": "zh", "iw": "he", "in": "id", "ji": "yi"}
"""Mandarin, which stands for Chinese; and codes that ISO 639-1 has replaced."""
SHORTEST = {long: short for short, *longer in (line.split(":") for line in CODES.split()) for long in longer} | OTHERS


def normalized(tag: str) -> str:
    """`De_at` is `de-at`, and so is `GER-AT`."""
    first, hyphen, rest = tag.strip().replace("_", "-").lower().partition("-")
    return SHORTEST.get(first, first) + hyphen + rest


def primary(tag: str) -> str:
    """The first subtag: of `zh-Hans-CN` it is `zh`."""
    return normalized(tag).partition("-")[0]


def is_language(found: str, wanted: str) -> bool:
    """Whether text marked `found` serves who wants `wanted`: their first subtags are the same."""
    return primary(found) == primary(wanted)


def same_direction(found: tuple[str, str], wanted: tuple[str | None, str | None]) -> bool | None:
    """Whether a file's (source, target) is the direction that is wanted. None: only when it is turned round.

    What is not said on either side ("" or None) fits.

    Raises:
        ValueError: neither way round.
    """
    source, target = wanted
    if _fits(found[0], source) and _fits(found[1], target):
        return True
    if _fits(found[1], source) and _fits(found[0], target):
        return None
    raise ValueError(f"{found[0] or '?'} to {found[1] or '?'}, not {source or '?'} to {target or '?'}")


def _fits(found: str, wanted: str | None) -> bool:
    return not found or not wanted or is_language(found, wanted)
