"""What a refusal means: the words of real servers, and any others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import Model
from perdure.agent.models.http_errors import MOST, beginning, failure, one_line, sentence
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, cut_between_words

MODEL = Model(id="m1", provider="acme", api="openai-completions", base_url="http://127.0.0.1:9/v1")


def refusal(status: int, text: str) -> ModelError:
    return failure(MODEL, status, text)


OVERFLOWS = {
    "OpenAI": (400, "This model's maximum context length is 8192 tokens."),
    "OpenAI Responses": (0, "Your input exceeds the context window of this model. Please adjust your input."),
    "OpenAI's code": (400, '{"error":{"message":"Too long","code":"context_length_exceeded"}}'),
    "Anthropic": (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "Anthropic, with the answer": (400, "input length and `max_tokens` exceed context limit"),
    "Anthropic, bytes": (413, '{"error":{"type":"request_too_large","message":"Too big"}}'),
    "Google": (400, "The input token count (1196265) exceeds the maximum number of tokens allowed"),
    "Bedrock": (400, "Input is too long for requested model."),
    "vLLM": (400, "You passed 1015 input tokens. However, the model's context length is only 1024 tokens"),
    "llama.cpp": (400, "the request exceeds the available context size. try increasing the context size"),
    "llama.cpp's type": (500, '{"error":{"code":500,"message":"no","type":"exceed_context_size_error"}}'),
    "Ollama": (400, "prompt too long; exceeded max context length by 4 tokens"),
    "LM Studio": (0, "tokens to keep from the initial prompt is greater than the context length"),
    "OpenRouter": (400, "This endpoint's maximum context length is 32768 tokens."),
    "Together": (422, "The input (20 tokens) is longer than the model's context length (10 tokens)."),
    "Groq": (400, "Please reduce the length of the messages or completion."),
    "Groq, a minute's": (413, "Request too large for model `llama` on tokens per minute (TPM)"),
    "OpenAI, a minute's": (429, "Request too large for gpt-4o on tokens per min (TPM)"),
    "Mistral": (400, "Prompt contains 40000 tokens too large for model with 32768 maximum context"),
    "xAI": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    "Kimi": (400, "Your request exceeded model token limit: 262144 (requested: 291351)"),
    "Copilot": (400, "prompt token count of 140000 exceeds the limit of 128000"),
    "Qwen": (400, "Range of input length should be [1, 98304]"),
    "no body": (413, ""),
}


@pytest.mark.parametrize(("status", "text"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_is_known_in_every_servers_words(status, text):
    """The conversation is compacted then, and never for anything else."""
    assert type(refusal(status, text)) is ContextOverflow


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("text", ["", "upstream error", "<html><title>502 Bad Gateway</title></html>"])
def test_a_busy_server_may_be_asked_again(status, text):
    """By its status alone."""
    assert type(refusal(status, text)) is ModelUnavailable


IN_STREAM = {
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}': ModelUnavailable,
    '{"type":"error","error":{"type":"api_error","message":"Internal server error"}}': ModelUnavailable,
    '{"error":{"code":"server_error","message":"The server had an error"}}': ModelUnavailable,
    '{"error":{"code":429,"message":"Provider returned error"}}': ModelUnavailable,
    '{"error":{"message":"something we never heard of"}}': ModelUnavailable,
    '{"type":"error","error":{"type":"invalid_request_error","message":"no such field"}}': ModelError,
    '{"error":{"code":"invalid_api_key","message":"no"}}': ModelError,
    '{"error":{"code":"insufficient_quota","message":"no"}}': ModelError,
    '{"error":{"code":"context_length_exceeded","message":"no"}}': ContextOverflow,
    '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}': (
        ContextOverflow
    ),
}


@pytest.mark.parametrize(("text", "kind"), IN_STREAM.items())
def test_an_error_inside_an_answer_is_told_by_its_words(text, kind):
    """There is no status any more. What nobody knows is taken for a passing trouble."""
    assert type(refusal(0, text)) is kind


USED_UP = {
    "OpenAI": (429, '{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}'),
    "Anthropic": (400, "Your credit balance is too low to access the Anthropic API."),
    "OpenRouter": (402, "Insufficient credits. Add more using https://openrouter.ai/credits"),
    "Google, a day's": (429, "You exceeded your current quota. RESOURCE_EXHAUSTED RequestsPerDay"),
}


@pytest.mark.parametrize(("status", "text"), USED_UP.values(), ids=USED_UP)
def test_a_used_up_quota_does_not_come_back_by_waiting(status, text):
    """A 429 like any other, but for its words."""
    error = refusal(status, text)
    assert type(error) is ModelError
    assert "quota" in str(error)


def test_googles_limit_a_minute_passes():
    """Though it speaks of plan and billing, as for a used up quota."""
    text = '{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED",'
    error = refusal(429, text + '"details":[{"quotaId":"PerMinute"},{"retryDelay":"26.5s"}]}}')
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == 26.5


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize(
    "text",
    [
        "The model `gpt-9` does not exist or you do not have access to it.",
        'model "m1" not found, try pulling it first',
        "m1 is not a valid model ID",
        '{"error":{"code":"model_not_found"}}',
        "models/m1 is not found for API version v1beta",
    ],
)
def test_an_unknown_model_is_called_that(status, text):
    """With the way to those that are known."""
    error = refusal(status, text)
    assert type(error) is ModelError
    assert "no model m1" in str(error)
    assert "pi models" in error.hint


@pytest.mark.parametrize(("text", "seconds"), [("20s", 20), ("6m0s", 360), ("340ms", 0.34)])
def test_how_long_to_wait_may_be_in_the_words(text, seconds):
    """An error inside an answer has no headers."""
    error = refusal(429, f"Rate limit reached. Please try again in {text}. Visit us.")
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3600, "asks to wait 60 min"),
        (20, "asks to wait 20 s"),
        (119.2, "asks to wait 120 s"),
        (7201, "asks to wait 3 h"),
        (0.2, ""),
        (None, ""),
        (float("inf"), ""),
        (float("nan"), ""),
    ],
)
def test_how_long_a_server_asks_to_wait_is_said(seconds, said):
    error = failure(MODEL, 429, "slow down", retry_after=seconds)
    assert error.message == f"acme (429) cannot answer now{' and ' * bool(said)}{said}: slow down"
    assert ("then" in error.hint) is bool(said)


def test_what_the_words_say_already_is_not_said_twice():
    assert "asks to wait" not in str(refusal(429, "Please try again in 6m0s."))


@pytest.mark.parametrize(
    ("provider", "url", "named"),
    [
        ("openai", "http://127.0.0.1:9/v1", "OPENAI_MODEL"),
        ("ollama", "http://127.0.0.1:11434/v1", "OLLAMA_MODEL"),
        ("openai", "https://api.openai.com/v1", "pi models"),
        ("lab", "http://127.0.0.1:9/v1", "pi models"),
    ],
)
def test_a_server_of_ones_own_without_the_model_says_where_to_name_another(provider, url, named):
    model = Model(id="m1", provider=provider, api="openai-completions", base_url=url)
    error = failure(model, 404, "model not found")
    assert named in error.hint
    assert ("-m" in error.hint) is (named != "pi models")


def test_g_5_a_refused_key_is_of_that_kind_and_names_no_variable_of_others():
    """Where the key is from, who sent it knows."""
    error = refusal(401, "no")
    assert error.kind == "key"
    assert "API_KEY" not in error.hint
    assert refusal(500, "no").kind == ""


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"error":{"message":"top_p must be below 1"}}', "top_p must be below 1"),
        ('{"error":"tools are not supported"}', "tools are not supported"),
        ('{"object":"error","message":"Unexpected role"}', "Unexpected role"),
        ('{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required"),
        ('[{"error":{"code":400,"message":"Invalid value"}}]', "Invalid value"),
        ('{"error":{"message":"error","metadata":{"raw":"{\\"message\\":\\"why\\"}"}}}', "why"),
        ("plain words\n on two lines\x1b[31m", "plain words on two lines"),
        ("<!doctype html><html><title>Bad\nRequest</title>", "Bad Request"),
        ('{"unknown":"shape"}', '{"unknown":"shape"}'),
    ],
)
def test_other_refusals_are_told_in_the_servers_own_words(body, shown):
    """The sentence inside whatever it is wrapped in, on one line."""
    error = refusal(400, body)
    assert type(error) is ModelError
    assert shown in str(error)
    assert str(error).isprintable()


@given(st.integers(0, 599), st.text() | st.binary().map(lambda each: each.decode("latin-1")))
def test_any_refusal_is_one_bounded_line(status, text):
    """Whatever a server says."""
    message = str(refusal(status, text))
    assert message.isprintable()
    assert len(message) < 600


HUGE = {
    "words": "the models are busy ",
    "one word": "x",
    "what no terminal shows": "\x1b ",
    "titles": "<title>",
    "titles without an end": "<title",
    "what is nearly a known sentence": "models prompt is too ",
    "digits": "9",
}


@pytest.mark.parametrize("filler", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("start", ["", "<!doctype html>", "try again in "])
def test_only_the_beginning_of_what_a_server_says_is_looked_at(start, filler):
    """20 MB of it took eight seconds, in which no signal was heard. What comes later changes nothing."""
    text = start + filler * (20_000_000 // len(filler)) + " context_length_exceeded"
    error = refusal(0, text)
    assert type(error) is ModelUnavailable
    assert error.said == refusal(0, text[: MOST + 1]).said
    assert len(error.said) < 600


LONG_MESSAGES = {
    "words": "too much of it ",
    "one word": "x",
    "escapes": "\u4e2d",
    "quotes": "'\"",
    "lines": "a\n",
}
WRAPPED: dict[str, Any] = {
    "OpenAI's": lambda message: {"error": {"code": "no", "message": message, "type": "x"}},
    "Google's": lambda message: [{"error": {"message": message}}],
    "one word": lambda message: {"error": message},
    "FastAPI's": lambda message: {"detail": [{"loc": ["body"], "msg": message}]},
    "one in another": lambda message: {"error": {"message": json.dumps({"error": {"message": message}})}},
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("piece", LONG_MESSAGES.values(), ids=LONG_MESSAGES)
@pytest.mark.parametrize("length", [MOST - 37, MOST - 14, MOST - 1, MOST + 9, 10 * MOST])
def test_of_a_message_of_any_length_the_beginning_is_shown(wrapped, piece, length):
    """Whatever it is wrapped in, and wherever that is cut: of 64 KB of one word nothing was shown."""
    text = json.dumps(wrapped("Why: " + piece * (length // len(piece))))
    said = sentence(beginning(text))
    assert said == one_line("Why: " + piece * 5000)
    assert 380 < len(said) <= 401
    assert said.endswith("…")


def test_a_whole_message_is_shown_where_only_what_follows_it_is_cut():
    text = json.dumps({"error": {"message": "No.", "details": "x" * MOST}})
    assert sentence(beginning(text)) == "No."


KEY = st.text("abcXYZ019-_.+/=", min_size=8, max_size=200)


@given(st.text(" ,:'\"{}\n", min_size=1, max_size=9), KEY, st.integers(0, 300), st.integers(1, 250))
def test_no_half_of_a_key_is_left_where_a_text_is_cut(gap, key, before, most):
    """Whoever masks keys knows whole ones only."""
    text = "word " * before + gap + key + gap + "more " * 60
    cut = cut_between_words(text, most)
    assert text.startswith(cut)
    assert len(cut) <= most
    assert key in cut or cut in "word " * before + gap


@pytest.mark.parametrize("make", [lambda text: ModelError(text).message, one_line])
@pytest.mark.parametrize("letter", ["x", "é", "-"])
def test_what_is_too_long_for_a_key_is_cut_anywhere(make, letter):
    """Else nothing of it would be shown."""
    said = make(letter * 10_000)
    assert said == letter * (len(said) - 1) + "…"
    assert len(said) > 400


def test_a_wait_of_more_digits_than_any_number_has_is_none():
    assert refusal(429, f"try again in {'9' * 5000}m1s").message
