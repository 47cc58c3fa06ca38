"""The script rules: on sentences written for this project and on real exam texts and real drift."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medgrpo.japanese import chinese_rule, is_japanese

# One sentence each, as a completion drifts: simplified, then traditional, with quoted or bare kana.
CHINESE = [
    "患者出现发热和咳嗽，考虑肺炎的可能性较大。",
    "根据题目描述，该患者最可能的诊断是急性阑尾炎。",
    "首先看选项a，「夜間高血圧となることが多い」这个说法是正确的。",
    "血压180/110mmHg，需要立即降压治疗。",
    "胸部X线检查未见异常。",
    "所以答案是c。",
    "アスピリン（阿司匹林）可以抑制血小板聚集。",
    "所见最符合「クローン病」，因此选b。",
    "患者是45岁男性，主诉头痛三天。",
    "心电图显示ST段抬高。",
    "根據題目，這位患者最可能的診斷是急性心肌梗塞。",
    "首先，我們需要分析每個選項是否正確。",
    "患者主訴胸痛，心電圖出現ST段上升，應考慮急性冠心症。",
    "「サルコイドーシス」的特徵是肺門淋巴結腫大，所以選項d不正確。",
    "血糖值為320mg/dL，尿酮體陽性，診斷為糖尿病酮酸中毒。",
    "這個藥物會導致高血鉀症。",
    "因為患者沒有發燒，所以不考慮感染。",
    "答案是b。",
    "腹部超音波檢查顯示膽囊壁增厚。",
    "患者有高血壓病史，目前服用アムロジピン治療中。",
    "儿童出现皮疹时，应该注意排除川崎病。",
    "尿蛋白阳性，肾功能下降，提示糖尿病肾病。",
    "这道题考查的是「パーキンソン病」的治疗药物。",
    "结论：选择d。",
    "患者既往有糖尿病史。",
    "ワルファリン的拮抗药是维生素K。",
    "这是因为胰岛素分泌不足。",
    "医生建议患者住院观察。",
    "第二个选项不对，第三个才对。",
    "病人意識不清，需要立即進行氣管插管。",
    "下列何者不是肝硬化的併發症？",
    "此題的關鍵在於辨別「むくみ」的原因。",
    "兒童若出現持續高燒五天以上，應懷疑川崎病。",
    "選項e的描述與題目不符，因此可以排除。",
    "白血球18000，CRP升高，表示有細菌感染。",
    "患者接受手術後恢復良好，但是三天後出現呼吸困難。",
    "レボドパ是治療巴金森氏症的首選藥物。",
    "經過評估，醫師決定給予抗生素治療。",
    "不是甲狀腺機能亢進，而是機能低下。",
    "本题选a。",
    "孕妇禁用此药。",
    "贫血的常见原因是缺铁。",
    "老年人骨折多见于股骨颈。",
    "该药不良反应少，可以长期使用。",
    "「めまい」即眩晕，多由内耳病变引起。",
    "CT示右肺上叶结节，大小约2cm。",
    "手术时间约2小时。",
    "急性期禁食水，给予补液。",
    "ステロイド是首选治疗。",
    "患者血壓下降，意識模糊，四肢冰冷。",
    "本題答案為d。",
    "懷孕婦女不宜使用此藥。",
    "老年人跌倒後最常見的骨折部位是股骨頸。",
    "建議住院觀察，並安排進一步檢查。",
    "「黄疸」指的是皮膚和眼白變黃。",
    "肺部聽診可聞及濕囉音。",
    "病人三天前開始發燒，伴有咳嗽。",
]

# Chinese in characters and words that a Japanese note may use as well: no sign, so the rules let it pass.
CHINESE_WITHOUT_A_SIGN = [
    "体温38.5℃，脉搏110次/分，呼吸24次/分。",
    "ペニシリン過敏者不可使用。",
    "腎功能正常，肝功能異常。",
]

ENGLISH = [
    "The answer is c.",
    "The patient most likely has acute appendicitis because the pain moved to the right lower quadrant.",
    "Option B is incorrect.",
    "First, let's look at the laboratory findings.",
    "Aspirin inhibits cyclooxygenase irreversibly, so bleeding time is prolonged.",
    "Therefore アスピリン is the best choice for this patient.",
    "Okay, the user is asking about 高血圧 and its complications.",
    "a",
    "Answer: b, d",
    "We should give intravenous fluids and check the electrolytes again in two hours.",
]

KOREAN = [
    "정답은 c입니다.",
    "환자는 45세 남성으로 두통을 호소한다.",
    "혈압은 180/110mmHg이다.",
    "따라서 アスピリン이 가장 적절하다.",
    "급성 충수염이 의심된다.",
    "「むくみ」는 부종을 뜻한다.",
    "선택지 b는 옳지 않다.",
    "먼저 검사 결과를 살펴보자.",
    "患者는 高血壓 치료를 받고 있다.",
    "당뇨병 환자에서 흔하다.",
]

# Telegraphic notes: kanji only, drug lists, laboratory values, names, half-width kana.
JAPANESE = [
    "胸部X線異常なし。血圧120/80mmHg。",
    "身長172cm、体重65kg。体温36.8℃。脈拍72/分、整。血圧118/76mmHg。",
    "急性心筋梗塞。",
    "アスピリン、クロピドグレル、ワルファリン。",
    "意識清明。瞳孔正円同大。対光反射正常。",
    "腹部平坦、軟。圧痛なし。",
    "尿所見：蛋白（－）、糖（－）、潜血（2＋）。",
    "病的骨折、病的反射、器質的疾患。",
    "外科的治療、内科的治療、保存的治療。",
    "身体的、精神的、社会的健康。",
    "既往歴：高血圧症、脂質異常症、糖尿病。",
    "大伏在静脈瘤。局在診断。在宅酸素療法。",
    "投与終了。治療完了。経過了解。",
    "行為能力。人為的要因。無為自然。",
    "是正勧告。国是。是非。",
    "ｱｽﾋﾟﾘﾝ 100mg 1錠。ﾜﾙﾌｧﾘﾝ 2mg 1錠。",
    "桂枝茯苓丸、当帰芍薬散、六君子湯、黄芩、川芎、薏苡仁。",
    "担当医：渡邊達也、齋藤弘之、廣澤和也。",
    "四つ這い可。伝い歩き可。独歩不可。",
    "主訴：発熱、咳嗽、呼吸困難。現病歴：3日前発症。",
    "WBC 12,000、CRP 8.5、PCT 0.6。細菌感染疑い。",
    "左下葉浸潤影。胸水少量。",
    "答えはcである。",
    "呼吸音清。心雑音なし。四肢浮腫なし。",
    "改訂長谷川式簡易知能評価スケール18点。",
    "痤瘡、囊胞、瘙痒、頰部紅斑、落屑、剝離。",
    "普及率。波及効果。追及。言及。",
    "腹部CT：虫垂腫大、周囲脂肪織濃度上昇、糞石。",
    "レボフロキサシン 500mg 1日1回 7日間。",
    "独立行政法人医薬品医療機器総合機構。",
    "妊娠38週2日、児頭先進、子宮口全開大。",
    "診断：肺腺癌 cT2aN1M0 stage IIB。",
    "EGFR遺伝子変異陽性。オシメルチニブ投与。",
    "居住場所以外。許可以前。三日以内。",
    "存在診断、質的診断、局在診断、病期診断。",
    "那覇市。那須町。慶應義塾大学病院。",
    "Staphylococcus aureus、Escherichia coli、肺炎球菌。",
    "血圧 124/78 mmHg，脈拍 80/分，整．体温 36.7 ℃．",
    "体温37.2℃、脈拍88/分（不整）、呼吸数18/分。",
    "主治医：中村和之、担当看護師：林美也子。",
    "造影剤アレルギー歴有。喫煙歴有。飲酒歴無。",
    "手術時間2時間15分、出血量120mL、輸血無。",
    "初診時所見。再診時所見。退院時所見。",
    "腰椎穿刺：初圧180mmH2O、細胞数12/μL、蛋白48mg/dL、糖62mg/dL。",
    "肝右葉S6、径25mm大、低吸収域。早期濃染、後期洗出。",
    "オメプラゾール、ファモチジン、スクラルファート。",
    "転倒。右大腿骨頸部骨折。人工骨頭置換術施行。",
    "食欲不振。体重減少。便潜血陽性。",
    "患者有害事象。高齢者有病率。",
    "東京都立病院。大都市圏。都市部。",
    "当該患者。該当者。関連死。",
    "妊娠反応陰性。最終月経12日前。",
    "労働安全衛生法。感染症法。精神保健福祉法。医師法。",
    "血圧、脈拍、体温、呼吸数、意識、尿量。",
    "ﾛｷｿﾌﾟﾛﾌｪﾝ錠60mg 3錠分3毎食後。",
    "甲状腺機能亢進症、副甲状腺機能低下症。",
    "診療所看護師。看護計画。看取。",
    "下肢静脈瘤、深部静脈血栓症、肺血栓塞栓症。",
]


@pytest.mark.parametrize("text", CHINESE + ENGLISH + KOREAN)
def test_one_drifted_sentence_is_caught_alone_and_inside_japanese(text: str) -> None:
    assert not is_japanese(text)
    if text in CHINESE + KOREAN:
        assert not is_japanese(f"正解はaである。患者は発熱している。\n{text}\nしたがってaを選ぶ。\n[ans]a[/ans]")


@pytest.mark.parametrize("text", CHINESE_WITHOUT_A_SIGN)
def test_chinese_without_a_sign_passes_as_documented(text: str) -> None:
    assert is_japanese(text)


@pytest.mark.parametrize("text", JAPANESE)
def test_japanese_notes_pass(text: str) -> None:
    assert is_japanese(text)


def test_notes_pass_one_after_another() -> None:
    assert is_japanese("".join(JAPANESE))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n。、！？",
        "ーー。・・。゠",
        "[ans]a[/ans]",
        "［ＡＮＳ］a［/ANS］",
        "[ans]",
        "<think>\n</think>\n[ans]a[/ans]",
        "[ans]腸雑音の消失[/ans]",
        "600",
        "b, d",
        "CRP 0.3mg/dL",
        "\ud800",
    ],
)
def test_what_says_nothing_is_not_japanese(text: str) -> None:
    assert not is_japanese(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>まず選択肢を見る。</think>正解はa。[ans]a[/ans]", True),
        ("<think>まず選択肢を見る。</think>\nAnswer: [ans]a[/ans]", True),
        ("<think>まず選択肢を見る。</think>The answer is a. [ans]a[/ans]", False),
        ("<think>首先看選項。</think>正解はaである。[ans]a[/ans]", False),
        ("<think>用户需要", False),  # cut off inside the thinking
        ("<think>Okay, let me look at the options first.</think>正解はaである。" + "熱がある。" * 20, False),
        ("<think>正解はaである。</think></think>[ans]a[/ans]", True),
    ],
)
def test_thinking_and_answer_are_judged_each(text: str, expected: bool) -> None:
    assert is_japanese(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("正解はaである。[ans]首先[/ans]", True),  # the parser judges what stands in the tag
        ("正解はaである。[ans]" + "首先" * 150 + "[/ans]", False),  # but prose cannot hide there
        ("正解はaである。[ans]首先，患者是男性", False),
        ("「首先」という中国語。", True),
        ("「這個藥物是對的」「因為沒有發燒」", False),  # nothing but quotations
        ("中国語で「诊断」と書く。", False),  # characters that Japanese cannot write, even quoted
        ("患者さんは风邪です。", False),
        ("髙橋、﨑山、渡邉が、痤瘡と囊胞と頰の剝離を診た。", True),
        ("四つ這いで移動する。", True),
        ("γ-GTP高値。β遮断薬。(゜Д゜)", True),
        ("ｶﾝｼﾞｬﾊ ｺｳｹﾂｱﾂ｡ｼﾝﾃﾞﾝｽﾞ ｲｼﾞｮｳﾅｼ｡", True),
        ("ㄅㄆㄇを書く。", False),
        ("Ответ: aです。", False),
        ("答えはcです。The answer is c because aspirin inhibits COX-1.", False),
        ("患者は手紙を書いた。The pain is severe. この文から考えられる疾患はどれか。", True),
    ],
)
def test_edges(text: str, expected: bool) -> None:
    assert is_japanese(text) is expected


@given(st.text(alphabet=st.characters(), max_size=200))
def test_never_raises_and_does_not_change_its_mind(text: str) -> None:
    assert is_japanese(text) is is_japanese(text)
    assert chinese_rule(text) is chinese_rule(text)


@given(st.lists(st.sampled_from(JAPANESE), min_size=1, max_size=5), st.sampled_from(CHINESE), st.data())
def test_no_amount_of_japanese_hides_a_chinese_sentence(notes: list[str], drift: str, data: st.DataObject) -> None:
    notes.insert(data.draw(st.integers(0, len(notes))), drift)
    assert not is_japanese("\n".join(notes))


@pytest.mark.parametrize(
    "unit",
    [
        "漢",
        "の",
        "漢、の",
        "也、漢の",
        "「",
        "[ans]",
        "<think>",
        "的",
        "the、の is",
        "其、の",
        "体重40kg。",
        "a ",
    ],
)
def test_time_is_linear(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        start = time.perf_counter()
        is_japanese(text)
        chinese_rule(text)
        return time.perf_counter() - start

    # Measured: under 1 second for a million characters; quadratic time would be hours.
    assert seconds(500_000) < 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("発熱を認める。体温36.5。血圧正常。", False),  # the seed's false alarm
        ("首先分析。再見患者。", False),
        ("首先分析。患者である。再見患者。", True),
        ("首先分析患者的情况", True),  # the seed's misses: one sentence, English, quoted kana
        ("The answer is c.", True),
        ("首先「むくみ」。再看「めまい」。", True),
        ("発熱。。咳。", False),  # 「。。」 makes no sentence in between
        ("患者である。咳。\n", True),  # nor does what is blank after the last 「。」
        ("ｱｽﾋﾟﾘﾝ。ｱｽﾋﾟﾘﾝ。", False),
        ("ー。・。", False),
        ("", True),
    ],
)
def test_chinese_rule_is_the_seeds(text: str, expected: bool) -> None:
    assert chinese_rule(text) is expected


@pytest.fixture(scope="module")
def igakuqa_texts(data_dir) -> list[str]:
    return [
        json.loads(line)["problem_text"]
        for path in sorted(data_dir.glob("igakuqa/data/*/*.jsonl"))
        if "_" not in path.stem
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def test_real_questions(igakuqa_texts: list[str]) -> None:
    assert len(igakuqa_texts) == 2000
    assert sum(not chinese_rule(text) for text in igakuqa_texts) == 664
    rejected = [text for text in igakuqa_texts if not is_japanese(text)]
    # Eleven of the questions are in English, without one kana or kanji; no Japanese one is rejected.
    assert len(rejected) == 11
    assert all(max(text, key=ord) < "\u3000" or "（A）" in text for text in rejected)


def test_real_drift(data_dir) -> None:
    lines = (data_dir / "paired/chinese_drift_samples.jsonl").read_text(encoding="utf-8").splitlines()
    responses = [json.loads(line)["response"] for line in lines]
    assert len(responses) == 30
    assert [text for text in responses if is_japanese(text)] == []


def test_real_pharmacist_comments(data_dir) -> None:
    lines = (data_dir / "yakugakuqa/103-A.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [text for line in map(json.loads, lines) for text in (line["problem_text"], line["comment"]) if text]
    assert [text for text in texts if not is_japanese(text)] == []
