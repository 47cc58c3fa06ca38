import json
import multiprocessing

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.journal import PARTIAL_FILE, CompletionJournal

SETTINGS = {"model": "m", "sampling": {"temperature": 0.0, "stop": ["a"]}}


def begin(folder, *names):
    journal = CompletionJournal(folder, SETTINGS)
    for name in names:
        journal.add(name, f"{name} の答え\n[ans]a[/ans]\u2028")
    journal.close()


def test_what_was_added_is_there_again(tmp_path):
    begin(tmp_path, "A1", "A2")
    begin(tmp_path, "A3")
    journal = CompletionJournal(tmp_path, SETTINGS)
    assert journal.done == {name: f"{name} の答え\n[ans]a[/ans]\u2028" for name in ("A1", "A2", "A3")}
    journal.remove()
    journal.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_was_cut_off_is_dropped_and_written_again(cut, tmp_path):
    begin(tmp_path, "A1", "A2")
    path = tmp_path / PARTIAL_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])  # also inside a character of three bytes
    journal = CompletionJournal(tmp_path, SETTINGS)
    assert list(journal.done) == ["A1"]
    journal.add("A2", "A2 の答え\n[ans]a[/ans]\u2028")
    journal.close()
    assert path.read_bytes() == whole


def test_a_kill_before_the_first_line_was_whole_begins_anew(tmp_path):
    (tmp_path / PARTIAL_FILE).write_bytes(b'{"settings": {"mod')
    begin(tmp_path, "A1")
    assert len((tmp_path / PARTIAL_FILE).read_text().splitlines()) >= 2
    assert CompletionJournal(tmp_path, SETTINGS).done.keys() == {"A1"}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{broken", "line 3: not JSON"),
        ('{"id": "A9"}', "line 3: is no"),
        ('{"id": 3, "completion": "x"}', "line 3: is no"),
    ],
)
def test_damage_in_the_middle_is_told_and_nothing_is_thrown_away(line, told, tmp_path):
    begin(tmp_path, "A1")
    path = tmp_path / PARTIAL_FILE
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(MedgrpoError, match=told) as refused:
        CompletionJournal(tmp_path, SETTINGS)
    assert "--overwrite" in str(refused.value)
    assert path.read_bytes() == before


def test_a_file_without_settings_is_refused(tmp_path):
    (tmp_path / PARTIAL_FILE).write_text(json.dumps({"id": "A1", "completion": "x"}) + "\n")
    with pytest.raises(MedgrpoError, match="is damaged"):
        CompletionJournal(tmp_path, SETTINGS)


def test_two_processes_do_not_write_one_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    taken, free = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, taken, free))
    other.start()
    try:
        assert taken.wait(60)
        with pytest.raises(MedgrpoError, match="another process is writing"):
            CompletionJournal(tmp_path, SETTINGS)
    finally:
        free.set()
        other.join(60)
    CompletionJournal(tmp_path, SETTINGS).close()


def hold(folder, taken, free):
    journal = CompletionJournal(folder, SETTINGS)
    taken.set()
    free.wait(60)
    journal.close()
