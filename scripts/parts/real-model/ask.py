"""One streamed and one plain question through a relay, and what became of them in its books.

python ask.py RELAY_URL MODEL, with TENANT_TOKEN (a tenant's) and OPERATOR_TOKEN (an operator's) in the environment.
"""
import decimal
import json
import os
import sys
import time
import urllib.error
import urllib.request

import openai

RELAY_URL, MODEL = sys.argv[1:3]
# A record gets from the journal into the store within moments; a machine may be busy.
PATIENCE_S = 20

client = openai.OpenAI(base_url=f"{RELAY_URL}/v1", api_key=os.environ["TENANT_TOKEN"], max_retries=0, timeout=120)


def admin(path):
    """What the admin API has at a path; None where it has nothing."""
    authorization = {"authorization": "Bearer " + os.environ["OPERATOR_TOKEN"]}
    request = urllib.request.Request(f"{RELAY_URL}/admin/v1{path}", headers=authorization)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def await_model():
    """What was set up is in force within 2 s."""
    until = time.monotonic() + PATIENCE_S
    while MODEL not in [model.id for model in client.models.list()]:
        assert time.monotonic() < until, f"{MODEL} is not offered"
        time.sleep(0.1)


def create(question, **more):
    messages = [{"role": "user", "content": question}]
    chat = client.chat.completions.with_raw_response
    raw = chat.create(model=MODEL, messages=messages, max_tokens=48, temperature=0, **more)
    return raw.headers["x-request-id"], raw.parse()


def streamed(question):
    began = time.monotonic()
    request, chunks = create(question, stream=True, stream_options={"include_usage": True})
    first, usage, pieces = None, None, 0
    print("  answer:   ", end="")
    for chunk in chunks:
        text = chunk.choices[0].delta.content if chunk.choices else None
        if text:
            first, pieces = first or time.monotonic(), pieces + 1
            print(text.replace("\n", "\n            "), end="", flush=True)
        usage = chunk.usage or usage
    ended = time.monotonic()
    print(f"\n  stream:   {pieces} pieces, the first after {first - began:.2f} s, the last after {ended - began:.2f} s")
    return request, usage


def plain(question):
    request, answer = create(question)
    print("  answer:  ", answer.choices[0].message.content.replace("\n", "\n            "))
    return request, answer.usage


def booked(request):
    until = time.monotonic() + PATIENCE_S
    while (event := admin(f"/usage-events/{request}")) is None:
        assert time.monotonic() < until, f"{request} is not in the books"
        time.sleep(0.1)
    return event, admin(f"/tenants/{event['tenant_id']}/ledger?event_id={request}")["data"]


def tell(request, usage):
    event, (entry,) = booked(request)
    usage_told = (usage.prompt_tokens, usage.completion_tokens)
    counts = event["usage"]
    usage_booked = (counts["input_tokens"] + counts["cache_read_tokens"], counts["output_tokens"])
    assert usage_told == usage_booked, (usage_told, usage_booked)
    assert counts["source"] == "upstream" and event["outcome"] == "completed", event
    assert decimal.Decimal(event["charge"]) == -decimal.Decimal(entry["amount"]) > 0, (event, entry)
    print(f"  usage:    {usage.prompt_tokens} tokens in, {usage.completion_tokens} out")
    print(f"  cost:     the tenant pays {event['charge']}, the provider takes {event['cost']}")
    print(f"  ledger:   {entry['created_at']} {entry['kind']} {entry['amount']} for {entry['event_id']}")


await_model()
for name, ask, question in [
    ("streamed", streamed, "In one sentence: what is a toll road?"),
    ("plain", plain, "Say hello."),
]:
    print(f"{name}: {question}")
    tell(*ask(question))
