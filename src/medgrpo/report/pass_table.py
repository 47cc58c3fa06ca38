"""Whether each run would pass the licensing exam, year by year, condition by condition."""

from collections.abc import Mapping

from medgrpo.evaluation.pass_line import LICENSING_EXAMS, PassLine, PassResult, judge_pass
from medgrpo.evaluation.samples import Run
from medgrpo.report.numbers import percent
from medgrpo.report.tables import Entry, Records, Table, entries


def pass_table(records: Records, runs: Mapping[str, Run]) -> Table | None:
    """Models by year with the three conditions; None where no year of the licensing exam was answered.

    A run scored under the policy `key` has no verdict: the exam's rules hold with the board's decisions only.
    """
    say = records.say
    head = [say("word.model"), say("word.year"), say("word.verdict"), say("word.required"), say("word.others")]
    head.append(say("word.contraindicated"))
    rows: list[list[Entry]] = []
    lines: dict[int, PassLine | None] = {}
    for name, run in runs.items():
        if run.run_info.get("policy") == "key":
            continue
        for result in judge_pass(run.samples):
            rows.append(_row(records, name, result))
            lines[result.year] = result.line
    if not rows:
        return None
    students = _students(next(iter(runs.values())))
    notes = [say("note.pass"), say("note.pass_marks")]
    if students:
        shares = [say("word.share", name=year, percent=percent(share)) for year, share in students.items()]
        notes.append(say("note.students", shares=say.join(shares)))
    notes += [say("note.source", year=year, source=line.source) for year, line in sorted(lines.items()) if line]
    return Table(head, rows, notes)


def _row(records: Records, name: str, result: PassResult) -> list[Entry]:
    say, line = records.say, result.line
    if line is None:
        verdict = Entry(say("pass.no_line"))
        return entries(name, str(result.year), verdict, _share(result.required_got, result.required_of), "–", "–")
    marks = [
        say(f"pass.mark.{'open' if part.met is None else 'met' if part.met else 'missed'}") for part in result.parts
    ]
    verdict = Entry(say(f"pass.{result.verdict.replace(' ', '_')}"), strong=result.verdict != "cannot be said")
    return entries(name, str(result.year), verdict, *_conditions(records, result, line, marks))


def _conditions(records: Records, result: PassResult, line: PassLine, marks: list[str]) -> list[Entry]:
    say = records.say
    required, others, contraindicated = marks
    chosen = str(result.contraindicated) if result.marked else say("word.unknown")
    return [
        Entry(
            f"{required} {_share(result.required_got, result.required_of)}",
            say("pass.required_line", share=f"{float(line.required_share):.0%}"),
        ),
        Entry(
            f"{others} {result.other_got} / {result.other_of}",
            say("pass.others_line", line=line.relative_line, of=line.out_of),
        ),
        Entry(f"{contraindicated} {chosen}", say("pass.contraindicated_line", most=line.max_contraindicated)),
    ]


def _share(got: int, of: int) -> str:
    return f"{got} / {of} ({percent(got / of)} %)" if of else "–"


def _students(run: Run) -> dict[str, float]:
    """Year -> the students' mean accuracy on the counted questions that know it."""
    by_year: dict[int, list[float]] = {}
    for sample in run.samples:
        if sample.exam in LICENSING_EXAMS and sample.counted and sample.student_accuracy is not None:
            by_year.setdefault(sample.year, []).append(sample.student_accuracy)
    return {str(year): sum(shares) / len(shares) for year, shares in sorted(by_year.items())}
