"""A GGUF file served by llama.cpp in the foreground: python serve.py GGUF PORT

PORT 0 takes a free one. The first line of standard output is the base URL for an OpenAI client, printed when the
model is loaded; llama.cpp's log goes to standard error. SIGTERM or Ctrl-C ends it.
"""
import signal
import sys

import xllamacpp

# Told of before threads exist, so that every one of them leaves the signals to `sigwait`.
ENDS = {signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
# Two answers at a time, 2048 tokens each.
params.n_parallel, params.n_ctx = 2, 4096

server = xllamacpp.Server(params)
print(server.listening_address + "/v1", flush=True)
signal.sigwait(ENDS)
