"""The page's server, asked over real sockets."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pellucid.errors import ModelFolderError
from pellucid.inspection import encoding
from pellucid.server import inspector as inspector_module
from pellucid.server.inspector import Inspector
from pellucid.training.run_folder import RunFolder, is_training
from server.shared import Client, serving, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def client(folder) -> Iterator[Client]:
    with serving(folder) as client:
        yield client


# --- what the page asks ---------------------------------------------------------------------------------------------


def test_the_model_says_what_it_is(client):
    told = client.ask("/api/model").json
    assert told["name"] == "model"
    assert told["config"]["num_encoder_layers"] == len(client.inspector.translator.model.encoder.layers)
    assert told["training"] is True
    assert told["pairs"] > 0 and 0 <= len(told["examples"]) <= 6


def test_a_translation_is_the_command_line_s_and_its_heads_can_be_asked_for(client):
    told = client.ask("/api/translate", {"text": "1 2 3 4", "beam_size": 3, "n_best": 2}).json
    translator = client.inspector.translator
    (expected,) = translator.translate(["1 2 3 4"], translator.with_search(beam_size=3, n_best=2))
    assert told["translation"] == expected.text
    assert told["score"] == pytest.approx(expected.score, abs=1e-4)
    assert [a["text"] for a in told["alternatives"]] == [a.text for a in expected.alternatives]
    maps = told["attention"]["cross"]
    thumbnails = np.frombuffer(base64.b64decode(maps["weights"]), "u1").reshape(
        maps["layers"], maps["heads"], maps["rows"], maps["columns"]
    )
    head = client.ask(f"/api/trace/{told['id']}/head?kind=cross&layer=0&head=0").json
    weights = np.frombuffer(base64.b64decode(head["weights"]), "<f4").reshape(head["rows"], head["columns"])
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.abs(thumbnails[0, 0] / 255 - weights).max() <= 0.5 / 255 + 1e-6
    flow = client.ask(f"/api/trace/{told['id']}/flow?kind=cross&layer=0&head=0&position=0").json
    assert flow["weights"] == pytest.approx(weights[0].tolist(), rel=1e-4)
    assert flow["token"]["text"] == "<s>"
    assert flow["next"][0]["token"]["kind"] in ("piece", "control")


def test_heads_are_switched_off_for_one_request_only(client):
    ask = {"text": "1 2 3 4", "beam_size": 1}
    plain = client.ask("/api/translate", ask).json
    heads = [
        f"cross.{layer + 1}.{head + 1}"
        for layer in range(plain["attention"]["cross"]["layers"])
        for head in range(plain["attention"]["cross"]["heads"])
    ]
    off = client.ask("/api/translate", {**ask, "off": heads}).json
    again = client.ask("/api/translate", ask).json
    assert off["off"] == heads
    assert off["target"]["log_probs"] != plain["target"]["log_probs"]
    assert again["target"] == plain["target"]
    # With no cross-attention the translation knows nothing of the source.
    other = client.ask("/api/translate", {"text": "4 4", "beam_size": 1, "off": heads}).json
    assert other["target"]["log_probs"][0] == pytest.approx(off["target"]["log_probs"][0], abs=1e-5)


def test_a_beginning_and_a_whole_translation_can_be_forced(client):
    free = client.ask("/api/translate", {"text": "1 2 3 4"}).json
    first = [node["token"]["id"] for node in free["beam"]["steps"][0] if node["token"]["kind"] == "piece"][1]
    forced = client.ask("/api/translate", {"text": "1 2 3 4", "prefix_ids": [first]}).json
    assert forced["target"]["tokens"][0]["id"] == first
    given = client.ask("/api/translate", {"text": "1 2 3 4", "target": "4 3"}).json
    assert given["forced"] and given["translation"] == "4 3" and given["beam"] is None


def test_the_table_of_positions(client):
    told = client.ask("/api/positions?length=7").json
    table = np.frombuffer(base64.b64decode(told["table"]), "<f4").reshape(7, told["d_model"])
    assert table[0].tolist()[:4] == [0, 1, 0, 1]  # sin 0, cos 0
    assert table[3, 0] == pytest.approx(np.sin(3), abs=1e-6)


def test_labs_are_listed_and_run_in_both_languages(client):
    english, chinese = client.ask("/api/labs").json, client.ask("/api/labs?lang=zh").json
    assert len(english) >= 13
    assert [lab["name"] for lab in english] == [lab["name"] for lab in chinese]
    assert english[0]["title"] != chinese[0]["title"]
    told = client.ask(f"/api/labs/{english[0]['name']}?lang=zh").json
    assert told["pictures"][0]["svg"].startswith("<svg") and told["checks"]
    assert client.ask("/api/labs/nothing").status == 400
    alone, looking = (client.ask(f"/api/labs/why-sqrt?model={choice}").json for choice in (0, 1))
    assert len(looking["pictures"]) == len(alone["pictures"]) + 1, "one more, of this model"
    assert client.ask("/api/labs/positions?no=1").status == 400
    assert client.ask("/api/labs?lang=xx").status == 400


def test_heads_are_measured_in_the_background_while_others_translate(client):
    assert client.ask("/api/heads").json["state"] in ("none", "done")
    started = client.ask("/api/heads", {"limit": 6}).json
    assert started["state"] in ("running", "done")
    while (told := client.ask("/api/heads").json)["state"] == "running":
        assert client.ask("/api/translate", {"text": "1 2"}).status == 200
        time.sleep(0.05)
    assert told["state"] == "done", told["error"]
    assert told["table"]["pairs"] == 6
    config = client.ask("/api/model").json["config"]
    layers = config["num_encoder_layers"] + 2 * config["num_decoder_layers"]
    assert len(told["table"]["heads"]) == layers * config["n_heads"]


def test_a_measuring_that_fails_says_so(client, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no memory")

    monkeypatch.setattr(inspector_module, "measure_heads", fail)
    client.ask("/api/heads", {"limit": 2})
    while (told := client.ask("/api/heads").json)["state"] == "running":
        time.sleep(0.01)
    assert (told["state"], told["error"]) == ("error", "no memory")


def test_training_is_told_line_by_line_and_thinned_where_it_is_long(client, folder, monkeypatch):
    told = client.ask("/api/training").json
    updates = [r["update"] for r in told["records"] if r["record"] == "progress"]
    assert updates[-1] == 40 and not told["running"]
    assert client.ask(f"/api/training?since={told['next']}").json["records"] == []
    metrics = folder / "training" / "metrics.jsonl"
    before = metrics.read_bytes()
    try:
        with metrics.open("ab") as file:
            file.write(b'{"record": "progress", "update": 41, "loss": NaN}\n{"record": "progress", "upd')
        later = client.ask(f"/api/training?since={told['next']}").json
        assert later["records"] == [
            {"record": "progress", "update": 41, "loss": None}
        ]  # what is half written comes later
        assert later["next"] == told["next"] + 1
        monkeypatch.setattr(inspector_module, "MOST_RECORDS", 10)
        thin = client.ask("/api/training").json["records"]
        assert len([r for r in thin if r["record"] == "progress"]) <= 11
        assert thin[-1]["update"] == 41
    finally:
        metrics.write_bytes(before)


def test_whether_a_training_is_going_on(folder, client):
    assert not is_training(folder)
    run = RunFolder(folder)
    try:
        assert is_training(folder)
        assert client.ask("/api/training").json["running"] is True
    finally:
        run.close()
    assert not is_training(folder / "nowhere")


def test_a_run_that_has_saved_no_model_yet_shows_its_curves(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "metrics.jsonl").write_text('{"record": "progress", "update": 1, "loss": 9.5}\n')
    with serving(tmp_path) as client:
        assert client.ask("/api/training").json["records"][0]["update"] == 1
        refused = client.ask("/api/translate", {"text": "a"})
        assert (refused.status, refused.json["code"]) == (400, "no-model-yet")
        assert "not saved a model yet" in refused.json["error"]
        assert client.ask("/api/translate", {"text": 1}).json["code"] == "refused"
        assert client.ask("/api/model?model=other").json["code"] == "not-there"
    with pytest.raises(ModelFolderError):
        Inspector(tmp_path / "nothing")


def test_only_the_last_traces_are_kept(client, monkeypatch):
    monkeypatch.setattr(inspector_module, "KEPT", 2)
    names = [client.ask("/api/translate", {"text": "a", "beam_size": 1}).json["id"] for _ in range(3)]
    path = "/api/trace/{}/head?kind=encoder&layer=0&head=0"
    assert client.ask(path.format(names[0])).status == 404
    assert client.ask(path.format(names[2])).status == 200


def test_many_ask_at_once_and_each_gets_its_own_answer(client):
    texts = ["1 2", "3 4 5", "2 1 3 4", "5"] * 5
    alone = {text: client.ask("/api/translate", {"text": text}).json["translation"] for text in set(texts)}
    found: dict[int, str] = {}

    def ask(i: int) -> None:
        body = {"text": texts[i], **({"off": ["cross.1.1"]} if i % 3 == 0 else {})}
        told = client.ask("/api/translate", body).json
        if i % 3:
            found[i] = told["translation"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == alone[texts[i]] for i in found) and len(found) == 13


# --- what must not be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, said",
    [
        ({}, "`text` is missing"),
        ({"text": ""}, "some text"),
        ({"text": 3}, "`text` must be a text"),
        ({"text": "a" * 5001}, "at most 5000 characters"),
        ({"text": "a", "beam_size": 0}, "`beam_size` must be from 1 to 32"),
        ({"text": "a", "beam_size": True}, "`beam_size` must be a whole number"),
        ({"text": "a", "beam_size": 2, "n_best": 3}, "n_best"),
        ({"text": "a", "length_penalty": -1}, "`length_penalty`"),
        ({"text": "a", "length_penalty": "x"}, "`length_penalty` must be a number"),
        ({"text": "a", "off": ["cross.9.1"]}, "no head"),
        ({"text": "a", "off": "cross.1.1"}, "`off` must be a list"),
        ({"text": "a", "prefix_ids": [10**9]}, "`prefix_ids`"),
        ({"text": "a", "prefix_ids": [0]}, "`prefix_ids`"),
        ({"text": "a", "prefix_ids": ["x"]}, "`prefix_ids` must be a list"),
        ({"text": "a", "colour": 1}, "no field 'colour'"),
        ([], "JSON object"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"text": "\xff"}', "not JSON in UTF-8"),
    ],
)
def test_a_bad_request_is_refused_in_words(client, body, said):
    answer = client.ask("/api/translate", body)
    assert answer.status == 400
    assert said in answer.json["error"]


def test_too_much_and_the_wrong_type_are_refused_unread(client):
    assert client.ask("/api/translate", b"x" * 300_000).status == 413
    form = client.ask("/api/translate", b"text=a", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert form.status == 415 and "JSON" in form.json["error"]
    plain = client.ask("/api/translate", b'{"text": "a"}', headers={"Content-Type": "text/plain"})
    assert plain.status == 415


@pytest.mark.parametrize(
    "path, status",
    [
        ("/api/nothing", 404),
        ("/api/trace/t999999/head?kind=cross&layer=0&head=0", 404),
        ("/api/positions?length=0", 400),
        ("/api/positions?length=9999", 400),
        ("/api/positions?length=-1", 400),
        ("/api/positions?length=%C2%B2", 400),
        ("/api/translate", 405),
        ("/../app.py", 404),
        ("/%2e%2e/app.py", 404),
    ],
)
def test_a_wrong_path_gets_json_too(client, path, status):
    answer = client.ask(path)
    assert answer.status == status
    assert answer.json["error"]


def test_what_a_head_is_asked_for_must_be_there(client):
    name = client.ask("/api/translate", {"text": "a", "beam_size": 1}).json["id"]
    for wrong in ("kind=cross&layer=7&head=0", "kind=all&layer=0&head=0", "kind=cross&head=0", "layer=0&head=x"):
        assert client.ask(f"/api/trace/{name}/head?{wrong}").status == 400
    assert client.ask(f"/api/trace/{name}/flow?kind=cross&layer=0&head=0&position=99").status == 400


@pytest.mark.parametrize("host, status", [
    ("localhost:7878", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST", 200), ("192.168.1.5:9", 200), ("named.example:1", 200),
    ("evil.example", 421), ("localhost.evil.example:7878", 421), ("", 421), ("127.0.0.1.evil.example", 421),
])  # fmt: skip
def test_only_those_who_name_this_machine_are_answered(client, host, status):
    answer = client.ask("/api/model", headers={"Host": host})
    assert answer.status == status
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers


def test_an_error_inside_is_logged_and_not_told(client, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise RuntimeError("secret")

    monkeypatch.setattr(inspector_module, "trace", fail)
    answer = client.ask("/api/translate", {"text": "private words"})
    assert answer.status == 500 and "secret" not in answer.body.decode()
    assert "private words" not in caplog.text


def test_a_client_that_hangs_up_harms_nobody(client):
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", client.port)) as raw:
            raw.sendall(
                b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
            )
    assert client.ask("/api/model").status == 200


def test_all_answers_are_json_that_every_reader_takes(client):
    told = client.ask("/api/translate", {"text": "1 2"})
    assert told.headers["content-type"] == "application/json"
    assert json.loads(told.body, parse_constant=pytest.fail)
    assert encoding.rounded(float("inf")) is None
