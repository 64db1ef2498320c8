"""Normalizes text before it is cut into tokens: the sahajBERT recipe, and rules for each language.

NMT and NFKC normalization as in SentencePiece (Kudo & Richardson 2018, arXiv:1808.06226), runs of spaces as
one, digits and punctuation marks apart. A language adds rules about its own characters.
"""

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

SPACE = "▁"


@dataclass(frozen=True)
class ReplacementRule:
    """Replaces what a regular expression (Oniguruma) finds."""

    pattern: str
    replacement: str
    example: tuple[str, str]
    """A text and what becomes of it; tests hold the rule to it."""


@dataclass(frozen=True)
class LanguageRules:
    """What is special about the characters of a language."""

    raw: tuple[ReplacementRule, ...] = ()
    """Rules on the text as it came; those on zero-width characters, since NMT turns them into spaces."""
    normal: tuple[ReplacementRule, ...] = ()
    """Rules on the text after NMT, NFKC and space collapsing."""
    alphabet: str = ""
    """Characters that are always tokens, however rare they are in the training text."""


# Letters and signs of the Bengali block, without digits, currency and fraction signs
_BENGALI_LETTER = r"[\u0980-\u0983\u0985-\u09CE\u09D7\u09DC-\u09E3\u09F0\u09F1\u09FC]"
_AFTER_LETTER = f"(?<={_BENGALI_LETTER}|{_BENGALI_LETTER} )"

_BENGALI_RULES = LanguageRules(
    raw=(
        # before Unicode 4.1 khanda ta was written as ta, hasanta, joiner
        ReplacementRule(r"\u09A4\u09CD\u200D", "\u09ce", ("উত\u09cd\u200dসব", "উ\u09ceসব")),
        # joiners choose between two shapes of the same letters; many texts hold them at random (পা‌‌ইয়া for পাইয়া)
        ReplacementRule(r"[\u200C\u200D]+", "", ("পোস্ট\u09cd\u200cমাস্টার", "পোস্ট\u09cdমাস্টার")),
    ),
    normal=(
        # the one joiner that tells two spellings apart: ra with ya-phala against reph with ya (Unicode
        # standard, section 12.2). No word begins with reph, so that at a beginning it is always the former.
        ReplacementRule(
            r"(?<![\u0980-\u09FF])\u09B0\u09CD\u09AF",
            "\u09b0\u200d\u09cd\u09af",
            ("র\u200c\u09cdযাব, র\u09cdযাব", "র\u200d\u09cdযাব, র\u200d\u09cdযাব"),
        ),
        # danda: two unassigned code points that fonts draw as dandas, the pipe of a keyboard without danda,
        # and a currency sign of the same shape, which stays behind digits (১৷ is one rupee)
        ReplacementRule(r"\u09E4", "।", ("হয়\u09e4", "হয়।")),
        ReplacementRule(r"\u09E5", "॥", ("হয়\u09e5", "হয়॥")),
        ReplacementRule(rf"{_AFTER_LETTER}(?:\|\||\u09F7\u09F7)", "॥", ("নাই || কা||", "নাই ॥ কা॥")),
        ReplacementRule(rf"{_AFTER_LETTER}[|\u09F7]", "।", ("এম| যাক৷ সে | ১৷ a|b", "এম। যাক। সে । ১৷ a|b")),
        ReplacementRule(r"।{2,}", "॥", ("নাই।। বটে।।।", "নাই॥ বটে॥")),
        # visarga: a colon between letters was typed for it (দু:খ); at the end of a word it may be a colon, and
        # between digits it is one. The other way round a visarga that follows no letter stands for a colon.
        ReplacementRule(
            rf"(?<={_BENGALI_LETTER}):(?={_BENGALI_LETTER})",
            "\u0983",
            ("দু:খ বললে: এই ১০:৩০", "দু\u0983খ বললে: এই ১০:৩০"),
        ),
        ReplacementRule(
            rf"(?<!{_BENGALI_LETTER})\u0983",
            ":",
            ("মোরে \u0983 তিমির দু\u0983খ ১০\u0983৩০", "মোরে : তিমির দু\u0983খ ১০:৩০"),
        ),
    ),
    # NFKC writes the letters rra, rha and yya (09DC, 09DD, 09DF) as base and nukta
    alphabet="।॥\u200d"
    "\u0981\u0982\u0983অআইঈউঊঋএঐওঔকখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযরলশষসহ"
    "\u09bc\u09be\u09bf\u09c0\u09c1\u09c2\u09c3\u09c7\u09c8\u09cb\u09cc\u09cdৎ\u09d7ৰৱ০১২৩৪৫৬৭৮৯",
)

LANGUAGES: dict[str, LanguageRules] = {
    "bn": _BENGALI_RULES,
    # Assamese shares the script, its dandas and its visarga
    "as": _BENGALI_RULES,
}


def rules_of(language: str) -> LanguageRules:
    """The rules of a language code as `bn` or `bn-BD`; none for a language without an entry."""
    return LANGUAGES.get(language.lower().replace("_", "-").split("-")[0], LanguageRules())


def build_normalizer(language: str, *, lowercase: bool) -> normalizers.Normalizer:
    """What makes text uniform: the language's raw rules, NMT, NFKC, single spaces, its other rules, case."""
    rules = rules_of(language)
    steps = [
        *(_replace(rule) for rule in rules.raw),
        normalizers.Nmt(),
        normalizers.NFKC(),
        normalizers.Replace(Regex(" {2,}"), " "),
        # a space at the end would be a token of its own; one at the start is that of the first word
        normalizers.Strip(left=False, right=True),
        *(_replace(rule) for rule in rules.normal),
    ]
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


def build_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """What no token may cross: spaces, and the borders of each digit and each punctuation mark."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Punctuation(),
        ]
    )


def _replace(rule: ReplacementRule) -> normalizers.Normalizer:
    return normalizers.Replace(Regex(rule.pattern), rule.replacement)
