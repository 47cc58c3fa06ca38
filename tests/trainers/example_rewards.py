"""Two rewards that vary within a group and depend on nothing but the text."""

import hashlib


def share_of_vowels(completions: list[str], **columns: object) -> list[float]:
    """Between 0 and 1."""
    return [sum(letter in "aeiou" for letter in text) / (len(text) + 1) for text in completions]


def hash_reward(completions: list[str], **columns: object) -> list[float]:
    """A second reward, unrelated to the first and ten times as wide."""
    return [10 * hashlib.sha256(text.encode()).digest()[0] / 255 for text in completions]
