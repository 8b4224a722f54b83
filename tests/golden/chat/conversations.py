"""19 conversations as chat requests, as kvferry takes them. What they have: roles, tools, calls with arguments as object and as text,
parts, images, thinking, continuation, documents, roles that no template knows."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather <now> & later",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City, e.g. \"Zürich\""},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": ["integer", "null"], "minimum": 1},
        "opts": {"type": "object", "properties": {"wind": {"type": "boolean"}}}}, "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Search.",
    "parameters": {"type": "object", "properties": {
        "q": {"type": "string"}, "k": {"type": "number", "default": 0.5},
        "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["q", "tags"]},
    "return": {"type": "string", "description": "hits"}}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(number, name, arguments):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(number, name, content):
    return {"role": "tool", "tool_call_id": number, "name": name, "content": content}


CONVERSATIONS = {
    "user": {"messages": [user("Hello!")], "add_generation_prompt": True},
    "system_user": {"messages": [system("Be brief. "), user(" Hi there\n")], "add_generation_prompt": True},
    "no_gen": {"messages": [system("x"), user("a"), assistant("b")], "add_generation_prompt": False},
    "multi": {"messages": [system("Sys"), user("one"), assistant("two"), user("three"), assistant("four\n"), user("five")],
              "add_generation_prompt": True},
    "unicode": {"messages": [system("日本語 \u2028 é"), user("emoji 😀 \"quoted\" 'single' \\ back\tslash <b>&amp;</b>"),
                             assistant("Ünïcödé ½"), user("Ωmega\u00a0x")], "add_generation_prompt": True},
    "tools": {"messages": [system("Use tools."), user("Weather in Zürich?")], "tools": [WEATHER, SEARCH],
              "add_generation_prompt": True},
    "tools_nosys": {"messages": [user("Weather?")], "tools": [WEATHER], "add_generation_prompt": True},
    "tool_call": {"messages": [
        system("T"), user("Weather?"),
        assistant("", tool_calls=[call("abcdefghi", "get_weather", {"city": "Zürich", "days": 3, "opts": {"wind": True, "x": None},
                                                                   "f": 1.5})]),
        tool("abcdefghi", "get_weather", "{\"temp\": 21}"), assistant("21 degrees."), user("Thanks <3")],
        "tools": [WEATHER, SEARCH], "add_generation_prompt": True},
    "tool_call_text_args": {"messages": [
        user("W?"), assistant(None, tool_calls=[call("123456789", "get_weather", "{\"city\": \"Paris\"}")]),
        tool("123456789", "get_weather", "sunny")], "tools": [WEATHER], "add_generation_prompt": True},
    "two_calls": {"messages": [
        user("Both?"),
        assistant("Sure", tool_calls=[call("aaaaaaaaa", "get_weather", {"city": "A"}),
                                      call("bbbbbbbbb", "search", {"q": "B", "tags": ["x", "y"], "k": 1e-7})]),
        tool("aaaaaaaaa", "get_weather", "1"), tool("bbbbbbbbb", "search", "2")],
        "tools": [WEATHER, SEARCH], "add_generation_prompt": True},
    "parts": {"messages": [user([{"type": "text", "text": "Part one."}, {"type": "text", "text": "Part two."}])],
              "add_generation_prompt": True},
    "image": {"messages": [user([{"type": "image"}, {"type": "text", "text": "What is this?"}])], "add_generation_prompt": True},
    "think_on": {"messages": [user("1+1?"), assistant("<think>\neasy\n</think>\n\n2", reasoning_content="easy"), user("2+2?")],
                 "add_generation_prompt": True, "chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
    "think_off": {"messages": [user("1+1?"), assistant("2", reasoning_content="simple", thinking="simple"), user("2+2?")],
                  "add_generation_prompt": True,
                  "chat_template_kwargs": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}},
    "continue": {"messages": [user("Count"), assistant("1, 2,")], "continue_final_message": True},
    "documents": {"messages": [user("Summarise")],
                  "documents": [{"title": "T1", "text": "Body 1"}, {"title": "T2", "text": "Böðy 2", "doc_id": 2}],
                  "add_generation_prompt": True},
    "developer": {"messages": [{"role": "developer", "content": "Dev rules"}, user("hi")], "add_generation_prompt": True},
    "bad_roles": {"messages": [user("a"), user("b"), {"role": "wizard", "content": "c"}], "add_generation_prompt": True},
    "empty_tools": {"messages": [system(""), user("")], "tools": [], "add_generation_prompt": True},
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
