"""The official OpenAI SDK against a running relay: python openai_sdk.py BASE_URL TOKEN MODEL

The upstream behind MODEL answers by what the last user message says: "hello", "weather" (a tool call), "be wrong"
(400), "be busy" (429), anything streamed in several chunks. Prints one line a check; exits 0 when all hold.
"""
import sys

import openai

BASE_URL, TOKEN, MODEL = sys.argv[1:4]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def client(token=TOKEN):
    return openai.OpenAI(base_url=BASE_URL, api_key=token, max_retries=0, timeout=20)


def ask(text, token=TOKEN, model=MODEL, **more):
    return client(token).chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **more)


def chat():
    answer = ask("hello")
    assert answer.choices[0].message.content == "Hello from upstream", answer
    assert answer.model == MODEL, answer.model
    assert answer.usage.total_tokens == 12, answer.usage


def stream_without_usage():
    chunks = list(ask("hello", stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello from upstream", chunks
    assert all(chunk.usage is None and chunk.model == MODEL for chunk in chunks), chunks
    assert chunks[-1].choices[0].finish_reason == "stop"


def stream_with_usage():
    chunks = list(ask("hello", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 12, chunks[-1]


def stream_helper():
    messages = [{"role": "user", "content": "hello"}]
    with client().chat.completions.stream(model=MODEL, messages=messages) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == "Hello from upstream", final


def tool_call():
    answer = ask("weather", tools=[WEATHER])
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Łódź"}'), call


def streamed_tool_call():
    arguments = ""
    for chunk in ask("weather", tools=[WEATHER], stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments += call.function.arguments or ""
    assert arguments == '{"city":"Łódź"}', arguments


def models():
    assert MODEL in [model.id for model in client().models.list()]
    assert client().models.retrieve(MODEL).id == MODEL


def errors():
    expect(openai.AuthenticationError, 401, lambda: ask("hello", token="tw_wrong"))
    expect(openai.NotFoundError, 404, lambda: ask("hello", model="no-such-model"))
    expect(openai.BadRequestError, 400, lambda: ask("be wrong"))
    expect(openai.RateLimitError, 429, lambda: ask("be busy"))


def expect(kind, status, call):
    try:
        call()
    except kind as error:
        assert error.status_code == status, error
        assert error.body and error.body.get("message"), f"no message: {error.body}"
        return
    raise AssertionError(f"expected {kind.__name__}")


for check in (
    chat, stream_without_usage, stream_with_usage, stream_helper, tool_call, streamed_tool_call, models, errors,
):
    check()
    print(check.__name__, "holds")
