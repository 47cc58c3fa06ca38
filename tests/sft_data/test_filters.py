"""Which items are kept, and the one reason for which each of the others is not."""

import pytest
from sft_server import GOOD_PARTS

from medgrpo.exams.question import Question, read_questions
from medgrpo.sft_data.filters import Item, filter_items
from medgrpo.sft_data.parts import PARTS, render_text, schema

ASKED = "熱が続いています。どのような病気が考えられますか。"


def item(name="1", question=ASKED, **parts):
    return Item(name, question, {**GOOD_PARTS, **parts})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (item(question="なぜ。"), "question too short"),
        (item(action=""), "part missing: action"),
        (item(action="  "), "part missing: action"),
        (item(caution="注意。"), "part too short: caution"),
        (item(explanation="患者可能患有急性阑尾炎，需要立即手术治疗，并且应当使用抗生素进行治疗。"), "not Japanese"),
        (item(explanation="The patient should see a doctor as soon as possible for treatment."), "not Japanese"),
        (item(action="正解はcです。水分を十分に取り、安静にしてください。"), "answer letter shows"),
        (item(action="選択肢のとおり、水分を十分に取り、安静にしてください。"), "answer letter shows"),
        (item(action="[ans]a[/ans]と考え、水分を十分に取り、安静にしてください。"), "answer letter shows"),
        (item(action="次の薬を考えます。\n(b) 水分を十分に取り、安静にしてください。"), "answer letter shows"),
        (item(action="答え：Ｄ。水分を十分に取り、安静にしてください。"), "answer letter shows"),
    ],
)
def test_each_reason(wrong, reason):
    kept, dropped = filter_items([item("0", question="別の質問です。どうすればよいでしょうか。"), wrong], [])
    assert [one.id for one in kept] == ["0"]
    assert dropped == {reason: ["1"]}


@pytest.mark.parametrize(
    "text",
    [
        "ビタミンB12やc型肝炎の検査を行い、水分を十分に取ってください。",
        "血液型がA型かどうか、CTで確かめてから水分を取ってください。",
        "答えは一つではありません。水分を十分に取り、安静にしてください。",
        "正解はありません。水分を十分に取り、安静にしてください。",
    ],
)
def test_medical_letters_are_no_answer_letters(text):
    kept, dropped = filter_items([item(action=text)], [])
    assert dropped == {}
    assert len(kept) == 1


def test_the_same_question_is_kept_once_whatever_its_spaces():
    twin = item("2", question=ASKED.replace("。", "。 ").replace("熱", " 熱"))
    kept, dropped = filter_items([item("1"), twin], [])
    assert [one.id for one in kept] == ["1"]
    assert dropped == {"duplicate": ["2"]}


def test_an_evaluation_question_retold_is_dropped():
    asked = "45歳の男性。昨夜から続く右下腹部の痛みを主訴に来院した。まず行う検査はどれか。"
    evaluation = [Question(id="9", question=asked, choices={"a": "一", "b": "二"}, answer=[["a"]])]
    retold = item("1", question="父のことです。" + asked.replace("まず行う検査はどれか。", "何を調べますか。"))
    kept, dropped = filter_items([retold, item("2")], evaluation)
    assert [one.id for one in kept] == ["2"]
    assert dropped == {"overlaps evaluation": ["1"]}


def test_real_questions_of_other_years_do_not_overlap(data_dir):
    """No false alarm: a training question's own text hardly ever repeats a question of another year."""
    from medgrpo.exams.igakuqa import read_igakuqa

    train, evaluation = read_igakuqa(data_dir / "igakuqa", {2018}), read_igakuqa(data_dir / "igakuqa", {2022})
    items = [item(question.id, question=question.question) for question in train if len(question.question) > 30]
    _, dropped = filter_items(items, evaluation)
    assert len(dropped.get("overlaps evaluation", [])) <= 2


def test_the_text_has_its_five_parts_in_order():
    text = render_text(GOOD_PARTS)
    headings = [line for line in text.splitlines() if line.startswith("【")]
    assert headings == ["【症状の整理】", "【考えられること】", "【対応】", "【受診の目安】", "【注意点】"]
    assert list(schema("text")["properties"]) == [part.field for part in PARTS] == list(GOOD_PARTS)


def test_mini_exam_can_be_asked_about():
    from medgrpo.sft_data.prompt_files import describe_answer, read_prompts

    prompts = read_prompts()
    for question in read_questions("mini_exam")[:20]:
        asked = prompts.messages("question", question)[1]["content"]
        assert question.question in asked
        assert describe_answer(question) in asked.split("正しい内容:")[1]
