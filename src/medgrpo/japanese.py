"""Script rules that tell Japanese from drift into Chinese (or English, Korean, ...): no language detector.

Two judges. `chinese_rule` is the rule of the first recipe, word for word, with its known mistakes, so that
its runs can be repeated. `is_japanese` keeps the intent and drops the mistakes. Neither ever guesses: each
sign below is something that written Japanese does not do, with the reason beside it, so a verdict can be
explained and does not change from one version of a model to the next. Statistical detectors are known to
take kana quoted in Chinese for Japanese and kanji-heavy Japanese for Chinese (wooorm/franc #84 and #77,
shuyo/language-detection #73).
"""

import re

HIRAGANA = "\u3041-\u3096\u309d-\u309f"
# ー (30FC, FF70), ・ (30FB, FF65) and ゠ (30A0) are punctuation of Chinese text too: no evidence of kana.
FULL_WIDTH_KATAKANA = "\u30a1-\u30fa\u30fd-\u30ff\u31f0-\u31ff"
KATAKANA = FULL_WIDTH_KATAKANA + "\uff66-\uff6f\uff71-\uff9d"
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


_FULL_WIDTH_KANA = re.compile(f"[{HIRAGANA}{FULL_WIDTH_KATAKANA}]")


def chinese_rule(text: str) -> bool:
    """Return False where two consecutive sentences hold no hiragana and no katakana: the reward `chinese`.

    The reading taken here: a sentence is what stands between two 「。」 and is not blank, so nothing after
    the last 「。」 is no sentence and 「。。」 makes none; text without 「。」 is one sentence, which passes;
    kana are the letters 3041-3096, 309D-309F, 30A1-30FA, 30FD-30FF and 31F0-31FF. Half-width katakana,
    ー and ・ do not count. With this reading the rule rejects 664 of the 2,000 question texts of IgakuQA.
    """
    previous_without = False
    for sentence in text.split("。"):
        if not sentence.strip():
            continue
        without = _FULL_WIDTH_KANA.search(sentence) is None
        if without and previous_without:
            return False
        previous_without = without
    return True


def is_japanese(text: str) -> bool:
    """Return True where `text` says something and all of it is Japanese, False where any part drifts.

    Left out before judging: what stands in `[ans]...[/ans]` (an answer, not prose; at most 200 characters
    without a bracket, so that prose cannot hide there), tags such as `<think>`, and, in rule 2, quotations
    of up to 40 characters in 「」『』“” (words mentioned, not used). A text without one kana or kanji says
    nothing in Japanese: empty, `[ans]a[/ans]` alone, `b`, all English. The thinking and what follows each
    `</think>` are judged one by one; a part may be next to empty, but none may drift. What counts as drift:

    1. a character which everyday Chinese writes and no Japanese standard contains (这, 们, 诊, 說), or two
       letters in a row of a script that Japanese does not write (hangul, bopomofo, Cyrillic, ...);
    2. in a stretch of clauses without hiragana, one sign of Chinese grammar that Japanese compounds do not
       have (是, 這, 因為), or two different weaker signs (其, 或, the old form 體). Hiragana carries
       Japanese grammar and katakana only names, so katakana excuses nothing;
    3. English sentences with more words than their part has kana and kanji, or more Latin words in all.
       Less is tolerated: Japanese medical writing quotes English sentences, Chinese ones it does not.

    Kanji-only notes (「身長138cm、体重40kg。」, 「急性心筋梗塞。」) carry no sign and pass; so does a short
    Chinese sentence that holds no sign at all. Never raises; time is linear in `len(text)`. Of a text of more
    than 60,000 characters the first 60,000 are judged: no model answers an exam question at such length (the
    longest outputs that are in use, about 32,000 tokens, are some 50,000 characters of Japanese).
    """
    prose = _ANSWER.sub("\n", text[:_LONGEST])
    return _JAPANESE_LETTER.search(prose) is not None and all(map(_is_free_of_drift, _THINK_END.split(prose)))


def _is_free_of_drift(part: str) -> bool:
    part = _TAG.sub("\n", part)
    if _NEVER_JAPANESE.search(part):
        return False
    latin_words = len(_LATIN_WORD.findall(part))
    # The letters are counted, which takes long, only where something is compared with their number.
    if latin_words > 9 and latin_words > _count_letters(part):
        return False
    if not _JAPANESE_LETTER.search(part):
        return len(_WORD.findall(part)) < 3  # "Answer: b" beside Japanese thinking is a label, not English
    prose = _QUOTATION.sub("\n", part)
    if not _JAPANESE_LETTER.search(prose):
        prose = part  # nothing but quotations
    # One string: the stretches of clauses without hiragana, a form feed between them.
    stretches = "\f".join(_WITHOUT_HIRAGANA.findall(prose))
    if _CHINESE_GRAMMAR.search(stretches) or _has_two_weak_signs(stretches):
        return False
    english_words = _count_english_words(stretches)
    return english_words == 0 or english_words <= _count_letters(part)


def _count_letters(part: str) -> int:
    """Count the kana and kanji."""
    return len(_NOT_JAPANESE_LETTER.sub("", part))


def _has_two_weak_signs(stretches: str) -> bool:
    """Return True where two different weak signs stand with no form feed between them."""
    first = None
    for sign in _WEAK_CHINESE.findall(stretches):
        if sign == "\f":
            first = None
        elif first is None:
            first = sign
        elif sign != first:
            return True
    return False


def _count_english_words(stretches: str) -> int:
    """Count the Latin words of the stretches that hold two different English function words."""
    if not _ENGLISH_FUNCTION_WORD.search(stretches):
        return 0
    return sum(
        len(_WORD.findall(stretch))
        for stretch in stretches.split("\f")
        if len({word.lower() for word in _ENGLISH_FUNCTION_WORD.findall(stretch)}) > 1
    )


def _exists_in(character: str, codec: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def _is_frequent_in_big5(character: str) -> bool:
    return _exists_in(character, "big5") and character.encode("big5")[0] < 0xC7


def _chinese_only() -> str:
    """The kanji of GB 2312 or Big5's frequent half that no Japanese set (JIS X 0213, CP932) contains."""
    return "".join(
        character
        for character in map(chr, range(0x4E00, 0xA000))
        if (_exists_in(character, "gb2312") or _is_frequent_in_big5(character))
        and not _exists_in(character, "shift_jis_2004")
        and not _exists_in(character, "cp932")
    )


_LONGEST = 60_000  # characters
_ANSWER = re.compile(r"[\[［]\s?ans\s?[\]］][^\[\]［］]{0,200}[\[［]\s?[/／]\s?ans\s?[\]］]", re.IGNORECASE)
_TAG = re.compile(r"<[/|]?[A-Za-z_]{1,20}\|?>|[\[［][/／]?ans[\]］]", re.IGNORECASE)
_QUOTATION = re.compile(r"「[^「」。！？!?\n]{0,40}」|『[^『』。！？!?\n]{0,40}』|“[^“”。！？!?\n]{0,40}”")
_THINK_END = re.compile(r"</think>", re.IGNORECASE)
_JAPANESE_LETTER = re.compile(f"[{HIRAGANA}{KATAKANA}{HAN}]")
_NOT_JAPANESE_LETTER = re.compile(f"[^{HIRAGANA}{KATAKANA}{HAN}]+")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]{4,}")  # longer than most units and abbreviations
_WORD = re.compile("[A-Za-z]+")

# Cyrillic to Cherokee and Khmer (0400-1CFF: every alphabet but Latin, Greek and their extensions), bopomofo,
# hangul. Two in a row, because a lone Д or ﾟ is drawing, not writing.
_FOREIGN = "\u0400-\u1cff\u3105-\u312f\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"
_NEVER_JAPANESE = re.compile(f"[{_chinese_only()}]|[{_FOREIGN}]{{2}}")

_BREAK = r"\s。．｡！？!?、，､,；;：:（）()［\]〈〉《》【】…\"'|/・"
_CLAUSE = f"[^{_BREAK}{HIRAGANA}]"
# Clauses without hiragana, one after another; starts only at a clause's start, so no character is read twice.
_WITHOUT_HIRAGANA = re.compile(f"(?<![^{_BREAK}])(?:{_CLAUSE}*+[{_BREAK}]++)*+(?:{_CLAUSE}++\\Z)?+")


def _signs(*branches: tuple[str, str]) -> re.Pattern[str]:
    """Compile signs, each a set of characters that it begins with and a pattern that looks back at them.

    The whole begins with a set, so that a search skips at full speed to where a sign may be. From there it goes by
    groups of signs, in their order: forty patterns tried one by one take most of the time on a text of such
    characters.
    """
    groups = [branches[i : i + 6] for i in range(0, len(branches), 6)]
    tried = (
        f"(?<=[{''.join(starts for starts, _ in group)}])(?:{'|'.join(pattern for _, pattern in group)})"
        for group in groups
    )
    return re.compile(f"[{''.join(starts for starts, _ in branches)}](?:{'|'.join(tried)})")


def _words(words: str) -> list[tuple[str, str]]:
    """Return the branches of `_signs` for `words` with blanks between them."""
    return [(word[0], f"(?<={word[0]}){word[1:]}") for word in words.split()]


# Chinese grammar in characters that Japanese has too. Looked for only where no hiragana stands, and with the
# Japanese compounds taken out (国是, 是正; 手首先端; 場所以外, 許可以前; 患者有病率).
_ALWAYS_GRAMMAR = "于這她它您你很嗎吧呢啊麼哪怎"
_CHINESE_GRAMMAR = _signs(
    (_ALWAYS_GRAMMAR, f"(?<=[{_ALWAYS_GRAMMAR}])"),
    *_words(
        "什麼 甚麼 我們 他們 因為 如果 但是 不是 就是 都是 由於 對於 關於 根據 或者 並且 而且 然後 已經 没有 沒有"
        " 應該 其中 此外 其次 選項 下列何者"
    ),
    ("是", "(?<=是)(?<![国如彼社校党]是)(?![非正認々迄枝清川永則澤沢])"),
    ("首", "(?<=首)(?<![手足]首)先"),
    ("所可", "(?<=[所可])(?<![場箇個]所)(?<!許可)以(?![外上下内前後来降])"),
    ("因", "(?<=因)此(?![外上下内前後来降])"),
    ("以", "(?<=以)及(?!第)"),
    ("有", f"(?<=[者往示伴]有)(?=[{HAN}])(?![無効害意病痛資料])"),
)

# Signs that a Japanese note may show once (a name, an old spelling) but not two of in one stretch.
_OLD_FORMS = (
    # forms replaced in Japan in 1946-49 and alive in Chinese, without those kept in names
    "亞惡壓圍醫隱營鹽歐毆假價畫會懷繪擴殼覺學勸卷歡觀關陷顏歸氣僞戲犧舊據擧舉虛峽挾狹區驅徑經繼莖輕雞擊儉劍圈"
    "檢權獻縣險驗嚴效恆礦號濟碎劑雜參慘棧蠶殘絲齒兒辭濕寫釋收從獸縱肅處獎將燒稱證乘壤孃疊讓釀囑觸寢盡圖粹醉隨"
    "髓數樞聲攝竊專戰淺潛纖踐錢禪雙壯搜插爭總裝騷臟屬續墮體對帶滯擇單擔膽團彈斷癡遲晝蟲鑄廳聽遞轉點傳黨盜當"
    "鬥獨讀屆貳惱腦霸廢賣麥發髮拔蠻佛變辯瓣沒滿默藥譯餘譽搖樣謠亂覽獵壘勵隸齡戀爐勞樓錄灣兩與來狀增溫黃綠歷曆"
)
_NEW_CHINESE_FORMS = "个从决况关养开阳阴肤确种适离划异复每"  # in Japanese sets only as rare characters
_ALWAYS_WEAK = _OLD_FORMS + _NEW_CHINESE_FORMS + "歲冰\f"
_WEAK_CHINESE = _signs(
    (_ALWAYS_WEAK, f"(?<=[{_ALWAYS_WEAK}])"),
    *_words("小時 分鐘 星期 最常 無法 答案 病人 病史 升高 引起 導致 者的 可見 可用 可導 可引"),
    ("而但且或其此亦於", "(?<=[而但且或其此亦於])(?![馬保田今])"),
    ("也之", f"(?<=[也之])(?=[{HAN}])(?![助介輔丞進子])"),  # else the end of a name
    ("了", "(?<=了)(?<![終完修満魅校未投議読結]了)(?![解承見簡知介子一悟])"),
    ("應", "(?<=應)(?<!慶應)"),
    ("，", f"(?<=[{HAN}]，)(?=[{HAN}0-9])"),  # Japanese notes have 、
    ("為", "(?<=為)(?<![行人無作有当営所本]為)(?![替政])"),
    ("及", "(?<=及)(?<![普言波追遡企]及)(?![第落])"),
    ("該", "(?<=該)(?<!当該)(?![当博])"),
    ("較", "(?<=較)(?<!比較)(?!差)"),
    ("請", "(?<=請)(?<![申要懇]請)(?![求負願])"),
    ("看", "(?<=看)(?![護取板破過守病])"),
    ("只仍已做", "(?<=[只仍已做])(?![今管見])"),
    ("天", "(?<=[0-9０-９一二三四五六七八九十]天)(?!王)"),
    ("的", f"(?<=的)[^{_BREAK}的\f]{{0,20}}的"),  # Japanese has one 的 in a compound
)

_ENGLISH_FUNCTION_WORD = re.compile(
    "[TtIiAaWwHhBbSsCcDdLl](?<![A-Za-z][A-Za-z])(?:(?<=[Tt])(?:he|his|hat|hey)|(?<=[Ii])[sft]|(?<=[Aa])re"
    "|(?<=[Ww])(?:as|ere|hich|ould|hat|e)|(?<=[Hh])a(?:s|ve|d)|(?<=[Bb])ecause|(?<=[Ss])(?:hould|o)"
    "|(?<=[Cc])ould|(?<=[Dd])oes|(?<=[Ll])et)(?![A-Za-z])"
)
