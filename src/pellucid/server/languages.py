"""Codes of languages as clients write them, brought to one form, and the names that they are shown with.

The form is BCP 47's (`pt-BR`, `zh-Hans`). Clients also send other cases (`EN`, `zh-hans`), underscores (`pt_BR`), codes
that have been replaced (`iw` for Hebrew), and LibreTranslate's own (`pb`, `zt`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ALIASES = {
    "zh": "zh-Hans",
    "zh-cn": "zh-Hans",
    "zh-sg": "zh-Hans",
    "cmn": "zh-Hans",
    "zh-hans-cn": "zh-Hans",
    "zt": "zh-Hant",
    "zh-tw": "zh-Hant",
    "zh-hk": "zh-Hant",
    "zh-mo": "zh-Hant",
    "zh-hant-tw": "zh-Hant",
    "zh-hant-hk": "zh-Hant",
    "pb": "pt-BR",
    "iw": "he",
    "in": "id",
    "ji": "yi",
    "jw": "jv",
    "mo": "ro",
    "no": "nb",
    "fil": "tl",
}
"""From lower case with hyphens."""

NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani", "be": "Belarusian",
    "bg": "Bulgarian", "bn": "Bengali", "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "ceb": "Cebuano",
    "co": "Corsican", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fo": "Faroese", "fr": "French", "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic",
    "gl": "Galician", "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer",
    "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish",
    "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori", "mk": "Macedonian",
    "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese",
    "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "oc": "Occitan", "or": "Odia",
    "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "pt-BR": "Portuguese (Brazil)",
    "qu": "Quechua", "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda", "sd": "Sindhi", "se": "Northern Sami",
    "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sm": "Samoan", "sn": "Shona", "so": "Somali",
    "sq": "Albanian", "sr": "Serbian", "st": "Southern Sotho", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish",
    "tt": "Tatar", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "wo": "Wolof",
    "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh-Hans": "Chinese", "zh-Hant": "Chinese (traditional)",
    "zu": "Zulu",
}  # fmt: skip

CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}")


def canonical(code: str) -> str | None:
    """`code` in the one form, or None if it cannot be a code at all.

    >>> [canonical(code) for code in ("EN", "pt_br", "iw", "zh", "zh-TW", "../..")]
    ['en', 'pt-BR', 'he', 'zh-Hans', 'zh-Hant', None]
    """
    if not CODE.fullmatch(code):
        return None
    low = code.lower().replace("_", "-")
    if low in ALIASES:
        return ALIASES[low]
    primary, *rest = low.split("-")
    # A script has four letters and is written Like, a region two and is written LIKE.
    shaped = [part.title() if len(part) == 4 and part.isalpha() else part.upper() for part in rest]
    return "-".join([ALIASES.get(primary, primary) if not rest else primary, *shaped])


def find(code: str, served: Iterable[str]) -> str | None:
    """Which of the `served` codes (in the one form) a client means by `code`, or None.

    `en-US` means `en` where there is only that, and `pt` means `pt-BR`; but never one script for another.
    """
    wanted = canonical(code)
    known = set(served)
    if wanted is None or wanted in known:
        return wanted
    primary = wanted.partition("-")[0]
    replaced = ALIASES.get(primary, primary)
    for shorter in (primary, replaced):
        if shorter in known and _script(wanted) in (None, _script(shorter)):
            return shorter
    related = sorted(
        other
        for other in known
        if other.partition("-")[0] == primary and None in (_script(other), _script(wanted)) and wanted == primary
    )
    return related[0] if related else None


def name(code: str) -> str:
    """The English name, or the code where none is known.

    >>> name("de"), name("zh-Hant"), name("en-GB"), name("xx")
    ('German', 'Chinese (traditional)', 'English (GB)', 'xx')
    """
    if code in NAMES:
        return NAMES[code]
    primary, _, rest = code.partition("-")
    return f"{NAMES[primary]} ({rest})" if primary in NAMES and rest else code


def _script(code: str) -> str | None:
    return next((part for part in code.split("-")[1:] if len(part) == 4 and part.isalpha()), None)
