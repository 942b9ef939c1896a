"""The rules of a sparring partner without a language model: what they find in a sentence, and what they ask
about it. `{it}` is the sentence, quoted, and `{0}` what was found in it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """Questions for a sentence that the pattern finds. `{it}` is the sentence, `{0}` what was found in it."""

    name: str
    pattern: re.Pattern[str]
    questions: tuple[str, ...]


def _rule(name: str, pattern: str, *questions: str) -> Rule:
    return Rule(name, re.compile(pattern, re.IGNORECASE), questions)


_DIGITS = r"\d(?:[\d.,]{0,30}\d)?"
AMOUNT = (
    rf"(?:[$€£]\s?{_DIGITS}(?:\s?(?:[kmb]|thousand|[mb]illion)\b)?"
    rf"|{_DIGITS}\s?(?:dollars?|euros?|usd|eur|pounds?|bucks)\b)"
)
_SHARE = r"(?:\s?(?:%|percent\b|[kmb]\b))"
_NUMBER = rf"(?<![\w#./:-])(?!(?:19|20)\d\d\b|\d+\.\d+\b(?!{_SHARE})){_DIGITS}{_SHARE}?(?![\w/:-]|[.,]\d)"
"""A quantity: no year, no date, no time and no version."""
NO_PRICE = (
    r"\b(?:for free|free (?:of charge|for|tier|plan|trial|version|forever|tool|app|software|and open)"
    r"|(?:is|be|stays?|it|this|that|them) free|charge nothing|no charge)\b"
)
"""A price of nothing: not free time, and nobody who feels free."""
RULES = (
    _rule(
        "refusal",
        r"\b(?:said no|say no|says no|refus\w+|declin\w+|reject\w+|churn\w*|cancell?\w+|unsubscrib\w+|"
        r"turned (?:it|us|me) down|not interested)\b",
        "{it}. Which reason did most of them give, in their words, and what did you change since?",
        "{it}. How many more of those would make you change the plan, and to what?",
    ),
    _rule(
        "evidence",
        r"\b\d+\b[^.]*\b(?:paid|pays?|bought|signed|subscribed|ordered|renewed)\b|\b(?:paid|bought|signed)\b[^.]*\d",
        "{it}: that is evidence. How many did you ask who did not, and what did they say?",
        "{it}: good, somebody acted. Would they do it again at twice the price, and did you ask them?",
    ),
    _rule(
        "market",
        r"\b(?:market|industry|tam|sector)\b[^.]*\d|\d[^.]*\b(?:market|industry|tam|sector)\b",
        "{it}. How many of those can you reach by name this month, and what do they spend on it today?",
        "{it}. Which hundredth of it is yours first, and who serves that today?",
    ),
    _rule(
        "funds",
        r"\b(?:rais(?:e|ed|ing)|fund(?:s|ed|ing|rais\w+)?|investors?|vc|seed|runway|burn\w*|savings|"
        r"in the bank|loan)\b"
        rf"|\b(?:costs?|spend(?:ing)?|spent)\b[^.]*{AMOUNT}|\b(?:i|we)(?: \w+){{0,2}} pay\b[^.]*{AMOUNT}",
        "{it}. How many months does that buy, or take away, and what has to be proven by then?",
        "{it}. What would you stop paying for if you had half of the money?",
    ),
    _rule(
        "income",
        rf"\b(?:mrr|arr|revenue|turnover|sales|profit|earn(?:ed|s|ing)?)\b[^.]*{AMOUNT}"
        rf"|{AMOUNT}[^.]*\b(?:mrr|arr|revenue|turnover|in sales|profit)\b",
        "{it}. From how many customers, and how much of it is gone if the largest one leaves?",
        "{it}. What was it three months ago, and what did you do that changed it?",
    ),
    _rule(
        "amount",
        AMOUNT,
        "{it}. Who has paid {0} already, and how many said no to it?",
        "{it}. Why {0}, and not half of it or twice as much: which customer taught you that?",
    ),
    _rule(
        "demand",
        r"\b(?:people|users?|customers?|clients?|everyone|everybody|companies|businesses|teams|founders|developers|"
        r"they)\b[^.]*\b(?:wants?|needs?|loves?|likes?|asks?|would|hates?|struggles?|wish)\b",
        "{it}. Name one of them. What did they say, when, and what do they do about it today?",
        "{it}. How many of them told you so without being asked, and what did one pay to be rid of it?",
    ),
    _rule(
        "free",
        rf"{NO_PRICE}|\b(?:freemium|open.source)\b",
        "{it}. Who pays then, for what, and from which month on?",
        "{it}. What do you lose if nobody ever pays, and how long can you go on like that?",
    ),
    _rule(
        "price",
        rf"^(?!.*{AMOUNT}).*\b(?:charg\w*|pric\w*|subscri\w*|revenue|monetiz\w*|per seat|"
        r"paid plan|business model|sell\w*)\b",
        "{it}. What is the price, as a number, and out of whose budget does it come?",
        "{it}. Who was the last person to refuse that, and why?",
    ),
    _rule(
        "comparison",
        r"\b(?:best|better|fast(?:er|est)?|easier|easy|cheap(?:er)?|simple|simpler|unique|only one|"
        r"first|leading|revolutionary|innovative|seamless\w*|powerful)\b",
        "{it}. Compared with what, and measured how? What do people use today, and why would they leave it?",
        "{it}. Who says so beside you? Which competitor would object first, and what would they say?",
    ),
    _rule(
        "certainty",
        r"\b(?:always|never|everyone|nobody|obvious\w*|clearly|certainly|definitely|"
        r"guarantee\w*|no risk|no compet\w*)\b",
        "{it}. What would you have to see to give that up? Have you looked for it?",
    ),
    _rule(
        "ignorance",
        r"\b(?:not sure|unsure|don['\u2019]?t know|do not know|no idea|no clue|unclear|undecided)\b",
        "{it}. Who does know, what could they show you within a week, and when do you ask them?",
        "{it}. What does it cost you to find out, and what does it cost not to know?",
    ),
    _rule(
        "doubt",
        r"\b(?:maybe|perhaps|probably|i think|i guess|i believe|i feel that|might|hopefully|hope)\b",
        "{it}. What could you see within a week that would tell you, and who could show it to you?",
        "{it}. What do you do meanwhile that only makes sense if it is true?",
    ),
    _rule(
        "question",
        r"^(?:and |but |so )?(?:what|why|how|who|whom|whose|when|where)\b.*\?$",
        "{it} What is your own answer, and what have you seen that speaks for it?",
        "{it} Who could answer that from experience, and when do you ask them?",
        "{it} What would you do differently tomorrow if you knew?",
    ),
    _rule(
        "choice",
        r"\?$|^(?:should|shall|can|could|do|is|are)\b",
        "{it} If you had to decide tonight, with what you know, what would it be, and what would you regret?",
        "{it} Which of the two answers would cost you more if it were wrong, and how soon would you notice?",
    ),
    _rule(
        "growth",
        r"\b(?:market(?:ing)?|viral|word of mouth|launch\w*|grow\w*|scale|seo|ads?|community|audience)\b",
        "{it}. Who are the first ten customers, by name, and who brings you to the eleventh?",
        "{it}. What has brought you a customer so far: what did you do, and how often did it work?",
    ),
    _rule(
        "hiring",
        r"\b(?:hir(?:e|ing)|team|co-?founder|contractor|employee|freelancer)\b",
        "{it}. What will not happen without them, and for how many months can you pay them?",
    ),
    _rule(
        "plan",
        r"\b(?:will|going to|plan(?:s|ned|ning)? to|want to|we'?ll|i'?ll|let'?s|soon|"
        r"next (?:week|month|year|quarter)|roadmap|eventually)\b",
        "{it}. By which day, and what will you have stopped doing if it is not so by then?",
        "{it}. What is the smallest part of that which a customer could refuse this week?",
    ),
    _rule(
        "building",
        r"\b(?:build\w*|feature|rewr[io]t\w*|migrat\w*|platform|app|product|tool|service|ai|api|integrat\w*|automat\w*)\b",
        "{it}. Which customer waits for that, and what do they do if it never comes?",
        "{it}. What would you show somebody tomorrow without building it, to learn the same?",
    ),
    _rule(
        "number",
        _NUMBER,
        "{it}. Where does the {0} come from: counted, or guessed? What would you do if it were half of that?",
        "{it}. Who else would come to {0}, from the same facts?",
    ),
    _rule(
        "self",
        r"^i(?:['\u2019]m| am| feel| was)\b",
        "{it}. What would change that within a week, and what keeps you from doing it?",
        "{it}. What does it make you put off, and who waits for that?",
    ),
)
EXCLUSIVE = (
    *((name, ("amount", "price")) for name in ("market", "funds", "income")),
    ("question", ("choice",)),
)
"""Rules, and those that then do not count: such money is no price that somebody pays, and a question that
begins with "what" has more than two answers."""
NOT_OF_FILES = frozenset({"question", "choice", "number", "building", "self", "ignorance"})
"""Rules for what somebody says, not for what a file says."""
ANY = _rule(
    "claim",
    r"",
    "{it}. What have you seen yourself that says so, and what would say the opposite?",
    "{it}. Who would disagree with that, and what would they say?",
    "{it}. What do you do differently because of that, from which day on?",
    "{it}. Which of your customers would notice that, and what would they do?",
    "{it}. What did you expect to come of that, and did it?",
    "{it}. If a friend told you that, what would you ask first?",
    "{it}. Given that, what should you stop doing this week?",
)
OF_A_FILE = (
    "{it}. Who waits for that, by name, and what do they use until then?",
    "{it}. Which part of that is true today, and which part is a plan?",
    "{it}. What would somebody ask who read only that, and have you shown it to one?",
    "{it}. Who would disagree with that, and what would they say?",
)
"""For a sentence of a file that no rule finds something in."""
SHORT = (
    "{it} is no evidence.",
    "{it}: that could be said of anything.",
    "{it}: say it with a name, a number and a day.",
)
GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|thanks?|thank you|hallo|bonjour|hola|ciao)\b", re.I
)
OF_A_DECISION = (
    (
        "number",
        re.compile(r"\d"),
        "You decided {it}. Which number tells you that it was wrong, and when do you look?",
    ),
    (
        "day",
        re.compile(
            r"\b(?:by|until|from|before|after|in) (?:\w+ )?"
            r"(?:\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
            re.I,
        ),
        "You decided {it}. From which day on, and who does it?",
    ),
    (
        "customer",
        re.compile(r"\b(?:customers?|users?|clients?|teams?|people|they|buyers?)\b", re.I),
        "You decided {it}. Which customer asked for that, and which one will be angry about it?",
    ),
    (
        "cost",
        re.compile(r"(?!)"),
        "You decided {it}. What did you give up for it, and what would make you undo it?",
    ),
)
"""What a decision may lack: a question, unless the pattern finds it there."""
MISSING = (
    (
        "price",
        re.compile(rf"{AMOUNT}|\b(?:pric|pay|paid|charg|subscri|cost|revenue|licen[cs])\w*", re.I),
        "{name} has no word of money. Who pays, how much, and for what that they cannot get elsewhere?",
    ),
    (
        "customer",
        re.compile(r"\b(?:customer|user|client|buyer|team|compan|people|founder|developer)\w*", re.I),
        "{name} has no word of a customer or a user. Who is the first one, and what do they use today?",
    ),
    (
        "competition",
        re.compile(
            r"\b(?:competit\w+|alternative\w*|instead of|unlike|than|compared|versus|vs|replaces?)\b", re.I
        ),
        "{name} has no word of an alternative. What do people use today, and why would they leave it?",
    ),
    (
        "risk",
        re.compile(r"\b(?:risk|fail|limit|unknown|assum|problem|hard)\w*", re.I),
        "{name} has no word of a risk or a limit. What would end this first, and how would you notice?",
    ),
    (
        "day",
        re.compile(
            r"\b20\d\d\b|\b(?:january|february|march|april|june|july|august|september|october|november|december|"
            r"deadline|by the end of)\b",
            re.I,
        ),
        "{name} has no date in it. What has to be true, and by which day, for you to go on with this?",
    ),
)
GENERAL = (
    "Which one assumption does all the rest depend on, in one sentence? What would show that it is wrong?",
    "Who is the customer, by name, and what did they last pay for something like it?",
    "What do you know today that you did not know a week ago, and who taught you that?",
    "If you had to stop one thing this week, what would it be, and who would complain?",
    "What would have to happen within thirty days for you to give this up?",
    "Which number do you look at first in the morning, and what was it last month?",
    "Whom have you not asked because you fear the answer, and what would they say?",
    "What does it cost you, in money and in months, to find out that you are wrong?",
)
