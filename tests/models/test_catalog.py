"""Names of models, and which key goes where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import POOL, Message, Model, Price, Prompt, Request
from medhelm.errors import ConfigError, UserError
from medhelm.models.catalog import defined_models, find_models
from medhelm.models.model_names import reasons
from tests.support.cases import table

KEYS = {"OPENAI_API_KEY": "sk-o", "AZURE_OPENAI_API_KEY": "az", "MEDHELM_API_KEY": "mh"}
AZURE = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/"}


def find(name: str, environment: Mapping[str, str] | None = None, file: Path | None = None) -> Model:
    """The one model of a name."""
    (model,) = find_models([name], file=file, environment=environment or {})
    assert model.name == name
    return model


CLOUD = {"AWS_REGION": "eu-central-1", "GOOGLE_CLOUD_PROJECT": "my-project", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
PROJECT = "/v1/projects/my-project/locations/europe-west4"
LOCAL, OURS = "http://127.0.0.1:8000", "https://x.openai.azure.com/openai"
BEDROCK = "https://bedrock-runtime.eu-central-1.amazonaws.com"


@table(
    ("name", "remote_name", "base_url"),
    [
        ("openai/gpt-4o", "gpt-4o", "https://api.openai.com/v1"),
        (f"openai/Qwen/Qwen2.5@{LOCAL}/v1/", "Qwen/Qwen2.5", f"{LOCAL}/v1"),
        ("openai/claude@20240620@https://gw.org/v1", "claude@20240620", "https://gw.org/v1"),
        ("azure/d@https://x.openai.azure.com", "d", f"{OURS}/v1"),
        (f"google/g@{LOCAL}/v1alpha/models/m:generateContent", "g", f"{LOCAL}/v1alpha"),
        ("vertex/g", "g", f"https://europe-west4-aiplatform.googleapis.com{PROJECT}"),
        (f"vertex/g@{LOCAL}/v1/projects/x/publishers/google/models/m:generateContent", "g", f"{LOCAL}/v1/projects/x"),
        ("bedrock/arn:aws:bedrock:x:1:y/z", "arn:aws:bedrock:x:1:y/z", BEDROCK),
        (f"bedrock/a.b-v1:0@{LOCAL}/model/m/converse", "a.b-v1:0", LOCAL),
    ],
)
def test_a_name_leads_to_a_model_at_an_address(name: str, remote_name: str, base_url: str) -> None:
    model = find(name, CLOUD)
    assert (model.provider, model.remote_name, model.base_url) == (name.partition("/")[0], remote_name, base_url)


@table(
    ("name", "environment", "base_url"),
    [
        ("azure/d", AZURE, f"{OURS}/v1"),
        ("azure/d", {**AZURE, "AZURE_OPENAI_API_VERSION": "9"}, f"{OURS}/deployments/d?api-version=9"),
        ("bedrock/b", {"AWS_REGION": " ", "AWS_DEFAULT_REGION": "u-1"}, "https://bedrock-runtime.u-1.amazonaws.com"),
        ("bedrock/b", {"AWS_REGION": "cn-north-1\n"}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        (
            "vertex/g",
            {**CLOUD, "GOOGLE_CLOUD_LOCATION": "global"},
            "https://aiplatform.googleapis.com/v1/projects/my-project/locations/global",
        ),
    ],
)
def test_an_address_is_found_through_the_environment(name: str, environment: Mapping[str, str], base_url: str) -> None:
    assert find(name, environment).base_url == base_url


def test_local_models_need_nothing() -> None:
    model = find("baseline/majority")
    assert (model.provider, model.remote_name, model.base_url, model.key_variable) == ("baseline", "majority", "", "")
    Path("r.jsonl").write_bytes(b"")
    first = find("replay/r.jsonl")
    assert (first.provider, first.remote_name, first.base_url) == ("replay", "r.jsonl", "")
    Path("r.jsonl").write_bytes(b"other content")
    assert find("replay/r.jsonl") != first


def test_the_endpoint_of_the_environment_gets_azures_key() -> None:
    environment = {**KEYS, "AZURE_OPENAI_ENDPOINT": "https://team.azure-api.net/llm"}
    model = find("azure/d", environment)
    assert (model.base_url, model.key_variable) == ("https://team.azure-api.net/llm/openai/v1", "AZURE_OPENAI_API_KEY")
    assert find("azure/d@https://other.azure-api.net", environment).key_variable == "MEDHELM_API_KEY"


@table(
    ("name", "said"),
    [
        ("mistral/large", "one of openai, azure, anthropic, google, vertex, bedrock, hf, vllm, ollama, llamacpp"),
        ("baseline/majorty", "unknown baseline. Did you mean `majority`?"),
        ("openai/q@127.0.0.1:8000/v1", "an address must begin with http:// or https://"),
        ("azure/d", "set AZURE_OPENAI_ENDPOINT"),
        ("claude-sonnet-5", "Did you mean `anthropic/claude-sonnet-5`?"),
        ("gpt-oss-120b", "openai/gpt-oss-120b@http://HOST:PORT/v1, or ollama/gpt-oss-120b for Ollama's."),
        ("openai/a, baseline/majority", "Repeat the option for each: --model A --model B"),
    ],
)
def test_a_name_that_leads_nowhere_says_why(name: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        find(name)
    assert f"model `{name}`: " in str(raised.value) or "," in name
    assert said in str(raised.value)


@table(
    ("name", "variable", "value"),
    [
        ("azure/d", "AZURE_OPENAI_ENDPOINT", "x.openai.azure.com"),
        ("azure/d", "AZURE_OPENAI_API_VERSION", "a&b"),
        ("bedrock/b", "AWS_REGION", "a@evil.com"),
        ("vertex/g", "GOOGLE_CLOUD_LOCATION", "x.evil.com"),
        ("vertex/g", "GOOGLE_CLOUD_PROJECT", "../x"),
    ],
)
def test_no_variable_leads_to_another_host(name: str, variable: str, value: str) -> None:
    with pytest.raises(UserError, match=variable):
        find(name, {**CLOUD, **AZURE, variable: value})


def test_the_order_is_kept_nothing_comes_twice_and_all_bad_names_are_named_at_once() -> None:
    names = ["baseline/random", "openai/gpt-4o", "baseline/random", "baseline/majority"]
    found = find_models(names, file=None, environment={})
    assert [model.name for model in found] == ["baseline/random", "openai/gpt-4o", "baseline/majority"]
    with pytest.raises(UserError) as raised:
        find_models([*names, "gpt-4o", "baseline/x", "replay/none.jsonl"], file=None, environment={})
    assert len(str(raised.value).splitlines()) == 3


HIDDEN = """
    o1  o3-mini-2025-01-31  openai/o3  gpt-5.1-chat-latest  gpt-6  gpt-oss-120b  deepseek-ai/DeepSeek-R1  QwQ-32B
    deepseek-v4-flash  Qwen3-235B-A22B-Thinking-2507  qwen3:8b  gemini-2.5-pro  claude-sonnet-5  us.deepseek.r1-v1:0
    us.anthropic.claude-sonnet-5-v1:0  openai.gpt-oss-120b-1:0  accounts/fireworks/models/kimi-k2p6  zai-org/glm-5
    grok-3-mini  MiniMaxAI/MiniMax-M2  medgemma-1.5-4b-it  nvidia/Nemotron-3-Nano  HuatuoGPT-o1-8B  Baichuan-M2-32B
"""
"""Names of models that reason unseen before they answer."""

OPEN = """
    gemini-2.5-flash-lite  claude-opus-4-8  us.anthropic.claude-sonnet-4-5-20250929-v1:0  gpt-5-chat  gpt-35-turbo
    olmo-2  o  o200k  deepseek-v3.1  my-o3-mini  moonshotai/Kimi-K2-Instruct  glm-4-9b-chat  grok-3
    Qwen/Qwen3-4B-Instruct-2507  Qwen3-Coder-30B-A3B-Instruct  Qwen2.5-7B-Instruct  medgemma-27b-text-it
"""
"""Names that look like theirs."""


@table(("name", "hidden"), [*((name, True) for name in HIDDEN.split()), *((name, False) for name in OPEN.split())])
def test_reasoning_models_are_known_by_name(name: str, hidden: bool) -> None:
    assert reasons(name) == hidden
    assert find(f"openai/{name}").reasoning == hidden


# --- models.yaml ------------------------------------------------------------------------------------------------------

DEFINED = """\
ward: {base_url: 'http://gpu.hospital.org:8000/v1/', insecure: true, model: Qwen/Qwen3-8B, key: WARD_KEY,
       reasoning: true, reasoning_effort: low, window: 1000, max_tokens: 50, max_concurrency: 2, structured: false,
       price: {input: 1, output: 2.5, cached_input: 0}, parameters: {top_p: 0.9, stop: null, x: {y: false}}}
openai/gpt-4o: {price: {input: 9, output: 9}}
openai/o3-mini: {reasoning: false}
far: {base_url: 'https://gw.org/v1'}
az: {provider: azure, model: d, base_url: 'https://x.openai.azure.com'}
az2: {provider: azure}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A models.yaml, not in its usual place."""
    path = tmp_path / "my-models.yaml"
    path.write_text(DEFINED, encoding="utf-8")
    return path


def test_a_defined_model_has_all_it_was_given(file: Path) -> None:
    assert find("ward", file=file) == Model(
        name="ward",
        provider="openai",
        remote_name="Qwen/Qwen3-8B",
        base_url="http://gpu.hospital.org:8000/v1",
        key_variable="WARD_KEY",
        reasoning=True,
        reasoning_effort="low",
        window=1000,
        max_tokens=50,
        max_concurrency=2,
        structured=False,
        price=Price(input=1.0, output=2.5, cached_input=0.0, source="models.yaml"),
        parameters={"top_p": 0.9, "stop": None, "x": {"y": False}},
        scope="ward",
    )


def test_definitions_may_change_known_models_and_what_they_leave_out_follows_the_rules(file: Path) -> None:
    known, far, azure = (find(name, KEYS, file) for name in ("openai/gpt-4o", "far", "az"))
    assert (known.remote_name, known.base_url) == ("gpt-4o", "https://api.openai.com/v1")
    assert (known.key_variable, known.price) == ("OPENAI_API_KEY", Price(input=9.0, output=9.0, source="models.yaml"))
    assert not find("openai/o3-mini", file=file).reasoning
    assert (far.remote_name, far.key_variable, far.reasoning) == ("far", "MEDHELM_API_KEY", False)
    assert (azure.base_url, azure.key_variable) == (f"{OURS}/v1", "AZURE_OPENAI_API_KEY")
    assert find("az2", AZURE, file).base_url == f"{OURS}/v1"
    with pytest.raises(UserError, match="model `az2`: set AZURE_OPENAI_ENDPOINT"):
        find("az2", file=file)


def test_models_yaml_is_the_one_that_was_named_or_lies_in_this_folder(file: Path, tmp_path: Path) -> None:
    assert find("ward", {"MEDHELM_MODELS": str(file)}).remote_name == "Qwen/Qwen3-8B"
    for given, environment in ((tmp_path / "none.yaml", {}), (None, {"MEDHELM_MODELS": "none.yaml"})):
        with pytest.raises(ConfigError, match="cannot be read"):
            find("baseline/random", environment, given)
    usual = tmp_path / "models.yaml"
    usual.write_text("ward: {model: usual}\n", encoding="utf-8")
    assert find("ward").remote_name == "usual"
    assert find("ward", {"MEDHELM_MODELS": str(file)}).remote_name == "Qwen/Qwen3-8B"
    assert find("ward", {"MEDHELM_MODELS": str(usual)}, file).remote_name == "Qwen/Qwen3-8B"
    with pytest.raises(UserError, match=r"model `wards`: unknown. Did you mean `ward`\?"):
        find("wards", file=file)


def test_all_that_can_be_listed(file: Path) -> None:
    """A definition that leads nowhere hides no other."""
    models, problems = defined_models(file=file, environment={})
    assert [model.name for model in models[:2]] == ["ward", "openai/gpt-4o"]
    assert [model.name for model in models[-3:]] == ["baseline/majority", "baseline/random", "baseline/lexical"]
    assert [problem.partition(":")[0] for problem in problems] == ["model `az2`"]


def test_a_name_with_an_address_can_be_defined(file: Path) -> None:
    """People give a window to the very name that they use."""
    name = "openai/m@http://127.0.0.1:8000/v1"
    file.write_text(f"{name}: {{window: 4096}}\n", encoding="utf-8")
    assert find(name, file=file) == replace(find(name), window=4096)


THINKING = {
    "anthropic/claude-opus-4-8: {parameters: {thinking: {type: adaptive}}}": True,
    "anthropic/claude-sonnet-5: {parameters: {thinking: {type: disabled}}}": False,
    "calm: {provider: google, model: gemini-2.5-flash, parameters: {thinkingConfig: {thinkingBudget: 0}}}": False,
    "eager: {provider: google, model: gemini-2.5-flash-lite, parameters: {thinkingConfig: {thinkingBudget: 9}}}": True,
    "aws: {provider: bedrock, model: 'a.b-v1:0', parameters: {thinking: {type: enabled}}}": True,
}
"""A model with parameters -> whether it reasons."""


@pytest.mark.parametrize(("entry", "thinks"), THINKING.items())
def test_parameters_turn_thought_on_and_off(tmp_path: Path, entry: str, thinks: bool) -> None:
    path = tmp_path / "more.yaml"
    path.write_text(entry, encoding="utf-8")
    assert find(entry.partition(":")[0], CLOUD, path).reasoning == thinks


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("openai/gpt-4o: {model: gpt-4o, base_url: 'https://evil.example/v1', key: OPENAI_API_KEY}", "`base_url`"),
        ("openai/gpt-4o@https://gw.org/v1: {base_url: 'https://evil.example/v1'}", "`base_url`"),
        ("anthropic/claude-sonnet-5: {model: claude-haiku-4-5}", "`model`"),
        ("azure/d: {provider: azure, base_url: 'https://evil.example'}", "`base_url`"),
    ],
)
def test_names_of_providers_cannot_be_moved(tmp_path: Path, entry: str, key: str, named: bool) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(f"ours: {{window: 9000}}\n{entry}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"line 2  .*{key}.* cannot be changed"):
        find("baseline/random", file=path if named else None)


@pytest.mark.parametrize(
    ("entry", "notice"),
    [
        ("{base_url: 'https://gw.org/v1'}", "the key in MEDHELM_API_KEY to https://gw.org"),
        ("{model: gpt-4o, key: MY_KEY}", "the key in MY_KEY to https://api.openai.com"),
        ("{base_url: 'http://127.0.0.1:8000/v1'}", ""),
    ],
)
def test_a_file_that_is_found_says_where_keys_go(tmp_path: Path, entry: str, notice: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(f"\nours: {entry}\n", encoding="utf-8")
    expected = [f"models.yaml:2: `{name}` sends {notice}" for name in ("ours", "own")] if notice else []
    notes: list[str] = []
    find_models(["ours", "own=ours"], environment=KEYS, note=notes.append)
    assert notes == expected
    find_models(["ours"], file=path, environment=KEYS, note=notes.append)
    assert notes == expected, "the user named the file"
    local = "ours: {base_url: 'http://127.0.0.1:8000/v1'}\n"  # any user of this machine may listen there
    path.write_text(local, encoding="utf-8")
    find_models(["ours"], environment={"OPENAI_API_KEY": "sk-o"}, note=notes.append)
    assert notes[len(expected) :] == ["models.yaml:1: `ours` sends the key in OPENAI_API_KEY to http://127.0.0.1:8000"]


# --- pools of equal servers -------------------------------------------------------------------------------------------

ONE, TWO, THREE = "http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1", "http://node3:8000/v1"


def pool(name: str, environment: Mapping[str, str] | None = None) -> Model:
    (model,) = find_models([name], environment=environment or {})
    return model


def test_neither_name_nor_digests_of_a_pool_depend_on_its_servers(tmp_path: Path) -> None:
    Path("endpoints.txt").write_text(f"# by Slurm\n{ONE}\n\n{THREE}/\n{ONE}\n")
    Path("models.yaml").write_text(
        f"ours: {{model: q, base_url: [{ONE}]}}\nfiled: {{model: q, endpoints: endpoints.txt}}\n"
    )
    names = [f"openai/q@{ONE},{TWO}", f"openai/q@{TWO}, {THREE}", "openai/q@file:endpoints.txt"]
    found, own = [pool(name) for name in names], [pool(f"ours2={name}") for name in names]
    prompt = Prompt((Message("user", "?"),))
    for alike in (found, own):
        assert len({(model.name, model.digest) for model in alike}) == 1
        assert len({Request(model=model, prompt=prompt, max_tokens=1).digest for model in alike}) == 1
    first, _, filed = found
    assert (first.name, first.base_url, first.addresses) == ("openai/q@pool", POOL, (ONE, TWO))
    assert (filed.addresses, filed.endpoints_file) == ((ONE, THREE), str(tmp_path / "endpoints.txt"))
    assert pool("ours").addresses == (ONE,)
    assert (pool("filed").addresses, pool("filed").name) == ((ONE, THREE), "filed")
    alone = pool(f"openai/q@{ONE}")
    assert (alone.addresses, alone.digest == first.digest) == ((ONE,), False)
    assert pool(names[0], {"OPENAI_API_KEY": "sk-o"}).key_variable == "", "which one server of this machine gets"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (f"openai/q@{ONE},{ONE}", "address 2, `http://127.0.0.1:8000/v1`, occurs twice"),
        (f"openai/q@{ONE},https://gpu.example/v1", "must all have http://, or all https://"),
        (f"openai/q@{ONE},http://me:secret@node/v1", "address 2, `http://node/v1`: an address must not contain a user"),
        (f"ollama/q@{ONE},{TWO}", "several servers can serve openai/NAME only"),
        ("openai/q@pool", "write the addresses of the pool after `@`"),
        ("openai/q@file:absent.txt", "absent.txt cannot be read: No such file or directory."),
        ("openai/q@file:wrong.txt", "line 3  `http://node/v1`: an address must not contain a user name"),
    ],
)
def test_pools_that_cannot_be(name: str, says: str) -> None:
    Path("wrong.txt").write_text(f"{ONE}\nnonsense\nhttp://me:secret@node/v1\n")
    with pytest.raises(UserError) as raised:
        pool(name)
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


def test_two_pools_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two pools are named openai/q@pool"):
        find_models([f"openai/q@{ONE},{TWO}", f"openai/q@{ONE},{THREE}"], environment={})
    assert len(find_models([f"openai/q@{ONE},{TWO}", f"b=openai/q@{ONE},{THREE}"], environment={})) == 2
