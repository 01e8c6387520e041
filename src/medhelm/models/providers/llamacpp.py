"""llama.cpp's server: its OpenAI-compatible API on this machine."""

from __future__ import annotations

from medhelm.models.provider import Service
from medhelm.models.providers.local_servers import local_address
from medhelm.models.providers.openai import open_chat_completions

SERVICE: Service = Service(
    name="llamacpp",
    title="llama.cpp",
    open=lambda model, context: open_chat_completions(SERVICE, model, context),
    locate=lambda written, _, environment: local_address("llamacpp", written, environment),
    key_variables=("LLAMA_API_KEY",),
    examples=("llamacpp/NAME",),
)
