//! Templates in the forms that models bring, with the texts that Hugging Face's library makes of them.

use super::*;
use crate::tokenizers::SpecialTokens;

/// Expressions, one at a time.
const EXPRESSIONS: [(&str, &str); 63] = [
    (r###"{{ 7 // 2 }}"###, r###"3"###),
    (r###"{{ 7 / 2 }}"###, r###"3.5"###),
    (r###"{{ 7 % 4 }}"###, r###"3"###),
    (r###"{{ 2 ** 10 }}"###, r###"1024"###),
    (r###"{{ -3 // 2 }}"###, r###"-2"###),
    (r###"{{ 1.5 + 1 }}"###, r###"2.5"###),
    (r###"{{ 10 / 5 }}"###, r###"2.0"###),
    (
        r###"{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }}"###,
        r###"a1NoneTrue1.0"###,
    ),
    (r###"{{ 3|string + 'x' }}"###, r###"3x"###),
    (r###"{{ '3'|int + 1 }}"###, r###"4"###),
    (r###"{{ 2.0|int }}"###, r###"2"###),
    (r###"{{ [3,1,2]|sort }}"###, r###"[1, 2, 3]"###),
    (r###"{{ range(2, 8, 3)|list }}"###, r###"[2, 5]"###),
    (r###"{{ 'abc'[1:] }}"###, r###"bc"###),
    (r###"{{ 'abc'[-1] }}"###, r###"c"###),
    (r###"{{ 'abcdef'[::2] }}"###, r###"ace"###),
    (r###"{{ [1,2,3][-2:] }}"###, r###"[2, 3]"###),
    (r###"{{ {'a': 1}.a }}"###, r###"1"###),
    (r###"{{ [1,2] + [3] }}"###, r###"[1, 2, 3]"###),
    (r###"{{ 'b' in 'abc' }}"###, r###"True"###),
    (r###"{{ 'k' in {'k': 0} }}"###, r###"True"###),
    (r###"{{ 1 if [] else 2 }}"###, r###"2"###),
    (r###"{{ not '' }}"###, r###"True"###),
    (r###"{{ 'x' and 'y' }}"###, r###"y"###),
    (r###"{{ none or 'z' }}"###, r###"z"###),
    (r###"{{ (1, 'a') }}"###, r###"(1, 'a')"###),
    (
        r###"{{ {'x': {'y': [1, 'b']} } }}"###,
        r###"{'x': {'y': [1, 'b']}}"###,
    ),
    (r###"{{ 'it''s' }}"###, r###"its"###),
    (r###"{{ 1e3 }}"###, r###"1000.0"###),
    (r###"{{ 0.1 + 0.2 }}"###, r###"0.30000000000000004"###),
    (r###"{{ 1e16 }}"###, r###"1e+16"###),
    (r###"{{ 123456789012 }}"###, r###"123456789012"###),
    (r###"{{ 3 is odd }}"###, r###"True"###),
    (r###"{{ 'A' is upper }}"###, r###"True"###),
    (r###"{{ [1,2]|first }}{{ [1,2]|last }}"###, r###"12"###),
    (r###"{{ 'a-b'.split('-')|join('_') }}"###, r###"a_b"###),
    (r###"{{ 'x'|upper|lower }}"###, r###"x"###),
    (r###"{{ ['b','a']|sort|join }}"###, r###"ab"###),
    (r###"{{ 'hello world'|title }}"###, r###"Hello World"###),
    (r###"{{ 'a b'|replace(' ', '_') }}"###, r###"a_b"###),
    (r###"{{ [0, '', none, 1]|select|list }}"###, r###"[1]"###),
    (r###"{{ 5|float }}"###, r###"5.0"###),
    (r###"{{ 2.5|round }}"###, r###"2.0"###),
    (r###"{{ 2.567|round(2) }}"###, r###"2.57"###),
    (r###"{{ -1|abs }}"###, r###"1"###),
    (r###"{{ 'ab' * 2 }}"###, r###"abab"###),
    (r###"{{ [0] * 2 }}"###, r###"[0, 0]"###),
    (r###"{{ messages|length > 2 }}"###, r###"True"###),
    (r###"{{ 'a' < 'b' }}"###, r###"True"###),
    (r###"{{ 1 < 2 < 3 }}"###, r###"True"###),
    (r###"{{ "\u00e9\n"|trim }}"###, r###"é"###),
    (r###"{{ 'text'|indent(2, true) }}"###, r###"  text"###),
    (
        r###"{{ {'b':1,'a':2}|dictsort }}"###,
        r###"[('a', 2), ('b', 1)]"###,
    ),
    (r###"{{ {'b':1}|items|list }}"###, r###"[('b', 1)]"###),
    (r###"{{ {'b':1}.items()|list }}"###, r###"[('b', 1)]"###),
    (r###"{{ [1,2,3]|sum }}"###, r###"6"###),
    (r###"{{ [1,2,3]|max }}"###, r###"3"###),
    (r###"{{ ['x']|tojson }}"###, r###"["x"]"###),
    (r###"{{ 'é<'|tojson }}"###, r###""é<""###),
    (r###"{{ none|tojson }}"###, r###"null"###),
    (r###"{{ true|tojson }}"###, r###"true"###),
    (r###"{{ 'x'|length }}"###, r###"1"###),
    (r###"{{ (messages|first).role }}"###, r###"user"###),
];

const CALLS: (&str, &str) = (
    r###"{%- set ns = namespace(seen=false, last=messages|length - 1) %}
{%- if tools is not none and tools|length > 0 %}
    {{- '<sys>\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] | trim + '\n\n' }}
    {%- endif %}
    {{- "# Tools" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</sys>\n" }}
{%- endif %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == "user" and message.content is string and not (message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.seen = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
        {%- for part in message.content if part.type == 'text' %}{% set content = content ~ part.text %}{% endfor %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<' + message.role + '>' + content + '</>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thoughts) %}
            {{- '<a><t>' + thoughts.strip('\n') + '</t>' + content.lstrip('\n') }}
        {%- else %}
            {{- '<a>' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if call.function %}
                    {%- set call = call.function %}
                {%- endif %}
                {{- '<call>{"name": "' }}
                {{- call.name }}
                {{- '", "arguments": ' }}
                {%- if call.arguments is string %}
                    {{- call.arguments }}
                {%- else %}
                    {{- call.arguments | tojson }}
                {%- endif %}
                {{- '}</call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '</>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<results>' }}
        {%- endif %}
        {{- '\n' }}{{- content }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '</results>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<a>' }}
    {%- if thinking is defined and thinking is false %}
        {{- '<t>\n\n</t>\n\n' }}
    {%- endif %}
{%- endif %}
"###,
    r###"<sys>
You are brief.

# Tools
{"type": "function", "function": {"name": "get_weather", "description": "Tells the \"weather\" <now> & later", "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Köln", "Paris"]}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}}
</sys>
<user>Weather in Köln?</>
<a><call>{"name": "get_weather", "arguments": {"city": "Köln", "days": 2, "deep": {"x": [1, 2.5, null, true]}}}</call></>
<results>
{"t": 21.5}</results>
<a><t>warm</t>21.5 degrees.</>
<user></>
<a><t>

</t>

"###,
);

const ALTERNATE: (&str, &str) = (
    r###"{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"###,
    r###"<s>[INST] Hi [/INST] Hello </s>[INST] Bye [/INST]"###,
);

const BLOCKS: (&str, &str) = (
    r###"{{ bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{#- A comment that is left out. -#}
{% for message in messages %}
  {% if message.role in ['user', 'assistant'] and message.content %}
    {{ loop.index }}/{{ loop.length }} {{ message.role|upper }}:
      {% generation %}
    {{ message.content | default('none', true) }}
      {% endgeneration %}
  {% else %}
    skipped
  {% endif %}

{% endfor %}
  {# again #}
{{ date_string }}

"###,
    r###"<s>    1/3 USER:
    Hi

    2/3 ASSISTANT:
    Hello  

    3/3 USER:
     Bye 

1 Jan
"###,
);

const MACROS: (&str, &str) = (
    r###"{%- macro quote(text, mark='"', n=1) -%}
    {{ mark * n }}{{ text }}{{ mark * n }}
{%- endmacro -%}
{%- macro args(map) -%}
    {%- for key, value in map.items() -%}
        {{ key }}={% if value is string %}{{ quote(value, "'") }}{% elif value is boolean %}{{ value|string|lower }}{% elif value is mapping %}({{ args(value) }}){% elif value is iterable %}[{% for v in value %}{{ v }}{{ ', ' if not loop.last }}{% endfor %}]{% else %}{{ value }}{% endif %}{{ "," if not loop.last else "" }}
    {%- endfor -%}
{%- endmacro -%}
{%- for m in messages if m.tool_calls is defined and m.tool_calls is not none -%}
    {%- for call in m['tool_calls'] -%}
        {{ quote(call['function']['name'], n=2) }} {{ args(call.function.arguments) }} {{ call.function.arguments.keys()|list|join('+') }}
    {%- endfor -%}
{%- endfor %} {{ tools[0].function.parameters.properties.city.enum | join(', ') }} {{ tools | map(attribute='function') | map(attribute='name') | list }}
{{ tools | tojson(indent=4) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | map(attribute='role') | unique | list }}
{{ messages[0].get('nothing', 'x') }}{{ messages[0].nothing }}{{ (messages|last)['content'][0]['text'] }}"###,
    r###"""get_weather"" city='Köln',days=2,deep=(x=[1, 2.5, None, True]) city+days+deep Köln, Paris ['get_weather']
[
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the \"weather\" <now> & later",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {
                        "type": "string",
                        "enum": [
                            "Köln",
                            "Paris"
                        ]
                    },
                    "days": {
                        "type": "integer",
                        "default": 3
                    }
                },
                "required": [
                    "city"
                ]
            }
        }
    }
]
2 ['system', 'user', 'assistant', 'tool']
xThanks, "###,
);

const SCOPES: (&str, &str) = (
    r###"{% set x = 1 %}{% for i in [1,2,3] %}{% set x = i %}{% if i == 2 %}{% continue %}{% endif %}{{ x }}{% else %}never{% endfor %}{{ x }}{% for i in [] %}{% else %}empty{% endfor %}
{% set text %}
  captured {{ x }}
{% endset %}
[{{ text }}]
{% filter upper %}shout{% endfilter %}
{%- raw %} {{ raw }} {% endraw -%}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{{ loop.revindex0 }}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.cycle('o', 'e') }} {% endfor %}
{% with y = 5 %}{{ y }}{% endwith %}{{ y is defined }}
{%+ if true %} kept {%+ endif %}
    {%- set a, b = 'p', 'q' %}{{ a }}{{ b }}
	{% if 1 %}tab{% endif %}

end"###,
    r###"131empty[  captured 1
]
SHOUT {{ raw }} 121FalseTrueo 340TrueFalsee 5False
 kept pq
tab
end"###,
);

const TOOLS: &str = r###"[{"type": "function", "function": {"name": "get_weather", "description": "Tells the \"weather\" <now> & later", "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Köln", "Paris"]}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}}]"###;

const LONG: &str = r###"[{"role": "system", "content": "You are brief.\n"}, {"role": "user", "content": "Weather in Köln?"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2, "deep": {"x": [1, 2.5, null, true]}}}}]}, {"role": "tool", "name": "get_weather", "tool_call_id": "c1", "content": "{\"t\": 21.5}"}, {"role": "assistant", "content": "<think>\nwarm\n</think>\n\n21.5 degrees."}, {"role": "user", "content": [{"type": "text", "text": "Thanks, "}, {"type": "image"}, {"type": "text", "text": "bye!"}]}]"###;

const SHORT: &str = r###"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello  "}, {"role": "user", "content": " Bye "}]"###;

fn settings() -> Settings {
    Settings {
        special: SpecialTokens {
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            ..SpecialTokens::default()
        },
        ..Settings::default()
    }
}

fn run(template: &str, messages: &str, options: &ChatOptions) -> Result<String> {
    let options = options.clone().chat_template(template);
    apply(&settings(), &ChatMessage::parse(messages)?, &options)
}

#[test]
fn expressions_are_pythons() {
    let mut wrong = Vec::new();
    for (template, expected) in EXPRESSIONS {
        let text = run(template, SHORT, &ChatOptions::new());
        match text {
            Ok(text) if text == expected => {}
            text => wrong.push(format!("{template}\n  {expected:?}\n  {text:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn whole_templates_make_the_same_text() -> Result<()> {
    let tools = match ChatValue::parse(TOOLS)? {
        ChatValue::List(tools) => tools,
        _ => Vec::new(),
    };
    let plain = ChatOptions::new();
    let long = plain.clone().tools(tools);
    let thinking = long
        .clone()
        .add_generation_prompt(true)
        .variable("thinking", false);
    let dated = plain.clone().variable("date_string", "1 Jan");
    for (name, (template, expected), messages, options) in [
        ("calls", CALLS, LONG, &thinking),
        ("macros", MACROS, LONG, &long),
        ("alternate", ALTERNATE, SHORT, &plain),
        ("blocks", BLOCKS, SHORT, &dated),
        ("scopes", SCOPES, SHORT, &plain),
    ] {
        assert_eq!(run(template, messages, options)?, expected, "{name}");
    }
    Ok(())
}
