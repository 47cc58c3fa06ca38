"""The journal of the synthesis: whatever was added is there again, whenever the process died."""

import json

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.sft_data.journal import ReplyJournal

SETTINGS = {"model": "m", "seed": 0}


def test_replies_and_tokens_come_back(tmp_path):
    path = tmp_path / "deep" / "x.journal.jsonl"
    with ReplyJournal(path, SETTINGS) as journal:
        journal.add("1", "question", {"question": "なぜですか。\u2028改行"}, 10, 5)
        journal.add("1", "text", {"symptom": "熱"}, 20, 7)
    with ReplyJournal(path, SETTINGS) as journal:
        assert journal.replies == {
            ("1", "question"): {"question": "なぜですか。\u2028改行"},
            ("1", "text"): {"symptom": "熱"},
        }
        assert (journal.prompt_tokens, journal.completion_tokens) == (30, 12)


def test_a_kill_at_any_byte_loses_at_most_the_line_in_writing(tmp_path):
    path = tmp_path / "x.jsonl"
    with ReplyJournal(path, SETTINGS) as journal:
        for name in "abc":
            journal.add(name, "text", {"symptom": f"症状{name}"}, 1, 1)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        whole = max(sum(end <= size for end in ends) - 1, 0)
        with ReplyJournal(path, SETTINGS) as journal:
            assert [name for name, _ in journal.replies] == list("abc")[:whole]
            journal.add("d", "text", {}, 1, 1)
        with ReplyJournal(path, SETTINGS) as journal:
            assert [name for name, _ in journal.replies] == [*list("abc")[:whole], "d"]


def test_other_settings_are_named(tmp_path):
    path = tmp_path / "x.jsonl"
    ReplyJournal(path, SETTINGS).__exit__(None, None, None)
    with pytest.raises(MedgrpoError, match=r"model was .m., is now .n...*choose another --out"):
        ReplyJournal(path, {**SETTINGS, "model": "n"})


@pytest.mark.parametrize("text", ["hello\n", "[]\n", "{}\n", '{"settings": {"model": "m", "seed": 0}}\n{"id": 1}\n'])
def test_a_foreign_file_is_refused_and_kept(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(MedgrpoError, match="no journal|no reply"):
        ReplyJournal(path, SETTINGS)
    assert path.read_text() == text


def test_two_processes_cannot_write_one_journal(tmp_path):
    path = tmp_path / "x.jsonl"
    with ReplyJournal(path, SETTINGS), pytest.raises(MedgrpoError, match="another process"):
        ReplyJournal(path, SETTINGS)
    with ReplyJournal(path, SETTINGS) as journal:
        journal.add("a", "text", {}, 1, 1)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MedgrpoError, match="cannot be written"):
        ReplyJournal(tmp_path / "file" / "x.jsonl", SETTINGS)
