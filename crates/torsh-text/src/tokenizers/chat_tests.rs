use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::tokenizers::SpecialTokens;

fn settings(template: &str) -> Settings {
    Settings {
        special: SpecialTokens {
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            ..SpecialTokens::default()
        },
        templates: template.into(),
        ..Settings::default()
    }
}

fn chat() -> Vec<ChatMessage> {
    vec![
        ChatMessage::system(" Be brief. "),
        ChatMessage::user("2 + 2?"),
        ChatMessage::assistant("4"),
    ]
}

fn run(template: &str, options: &ChatOptions) -> String {
    match apply(&settings(template), &chat(), options) {
        Ok(text) => text,
        Err(e) => format!("error: {e}"),
    }
}

fn text(template: &str) -> String {
    run(template, &ChatOptions::new())
}

#[test]
fn blocks_leave_no_lines() {
    let template = "{% for m in messages %}\n    {%- if m.role == 'system' %}\n<<{{ m.content | trim }}>>\n    {% else %}\n[{{ m['role'] }}] {{ m.content }}{{ eos_token }}\n    {% endif %}\n{% endfor %}\n";
    assert_eq!(
        text(template),
        "<<Be brief.>>\n[user] 2 + 2?</s>\n[assistant] 4</s>\n"
    );
}

#[test]
fn values_are_written_as_python_writes_them() {
    for (template, expected) in [
        (
            "{{ true }} {{ none }} {{ 1.0 }} {{ 1e20 }} {{ 1 / 2 }}",
            "True None 1.0 1e+20 0.5",
        ),
        (
            "{{ [1, 'a', \"it's\", none, 0.1] }}",
            "[1, 'a', \"it's\", None, 0.1]",
        ),
        (
            "{{ {'a': [true], 'b': 'x\\ny'} }}",
            "{'a': [True], 'b': 'x\\ny'}",
        ),
        ("{{ undefined_name }}|{{ tools is none }}", "|True"),
        (
            "{{ {'b': 1, 'a': 'é\"<'} | tojson }}",
            "{\"b\": 1, \"a\": \"é\\\"<\"}",
        ),
        (
            "{{ {'a': [1, {}]} | tojson(indent=2) }}",
            "{\n  \"a\": [\n    1,\n    {}\n  ]\n}",
        ),
        (
            "{{ ['é', 1e-7] | tojson(ensure_ascii=true) }}",
            "[\"\\u00e9\", 1e-07]",
        ),
        (
            "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}",
            "{\"a\":2,\"b\":1}",
        ),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
}

#[test]
fn texts_have_pythons_methods() {
    for (template, expected) in [
        (
            "{{ '  a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|",
            "a b|a|a |",
        ),
        (
            "{{ 'a,b,c'.split(',') }}{{ 'a  b c'.split() }}",
            "['a', 'b', 'c']['a', 'b', 'c']",
        ),
        (
            "{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', maxsplit=1) }}",
            "['a', 'b,c']['a,b', 'c']",
        ),
        (
            "{{ 'a b  c '.split(none, 1) }}{{ ' a b c'.rsplit(none, 1) }}",
            "['a', 'b  c '][' a b', 'c']",
        ),
        ("{{ '<think>x</think>y'.split('</think>')[-1] }}", "y"),
        (
            "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}",
            "TrueTrue",
        ),
        (
            "{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('X', '-', 1) }}",
            "a-b-a-bX",
        ),
        (
            "{{ 'éab'.find('b') }}{{ 'abab'.rfind('ab') }}{{ 'a'.find('x') }}",
            "22-1",
        ),
        (
            "{{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }} {{ 'A'.lower() }}",
            "Hello World Hello a",
        ),
        (
            "{{ ', '.join(['a', 'b']) }} {{ 'aba'.count('a') }}",
            "a, b 2",
        ),
        (
            "{{ 'a\\nb\\n'.splitlines() }}{{ 'key=v=w'.partition('=') }}",
            "['a', 'b']('key', '=', 'v=w')",
        ),
        (
            "{{ '7'.zfill(3) }}{{ 'a'.ljust(3) }}|{{ 'a'.center(4, '*') }}",
            "007a  |*a**",
        ),
        (
            "{{ '{} and {x}'.format(1, x='y') }} {{ 'pre_x'.removeprefix('pre_') }}",
            "1 and y x",
        ),
        (
            "{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'Ab'.isupper() }}",
            "TrueFalseFalse",
        ),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
}

#[test]
fn dictionaries_and_lists_have_pythons_methods() {
    for (template, expected) in [
        (
            "{% for k, v in {'z': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}",
            "z1a2",
        ),
        (
            "{{ {'a': 1}.get('a') }}{{ {}.get('x') }}{{ {}.get('x', 3) }}",
            "1None3",
        ),
        (
            "{{ {'a': 1}.keys() | list }}{{ ['x', 'y'].index('y') }}",
            "['a']1",
        ),
        (
            "{{ messages[0].get('role') }}{{ messages[0].keys() | list }}",
            "system['role', 'content']",
        ),
        (
            "{{ 'x' is sequence }}{{ {} is sequence }}{{ none is iterable }}",
            "TrueTrueFalse",
        ),
        (
            "{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + 1 %}{% endfor %}{{ n.x }}",
            "3",
        ),
        (
            "{% for m in messages[::-1] %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
            "assistant",
        ),
        (
            "{% macro f(x, y=2) %}{{ x + y }}{% endmacro %}{{ f(1) }}{{ f(1, y=4) }}",
            "35",
        ),
        (
            "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}",
            "['2 + 2?']",
        ),
        ("{%- generation -%} a {%- endgeneration %} b", "a b"),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
    assert!(text("{{ [1].append(2) }}").contains("may not"));
}

#[test]
fn templates_refuse_and_fail_with_a_reason() {
    assert!(text("{{ raise_exception('no system message') }}").contains("no system message"));
    assert!(text("a\n{% if %}").contains("chat_template:2"));
    assert!(text("{{ messages[0].content.nothing() }}").contains("nothing"));
    assert!(text("{{ messages | nothing }}").contains("nothing"));
    let none = apply(&Settings::default(), &chat(), &ChatOptions::new());
    assert!(none.is_err_and(|e| e.to_string().contains("no chat template")));
    let empty = apply(&settings("x"), &[], &ChatOptions::new());
    assert!(empty.is_err_and(|e| e.to_string().contains("no message")));
}

#[test]
fn options_reach_the_template() -> Result<()> {
    let tool =
        ChatValue::parse(r#"{ "type": "function", "function": { "name": "add", "a": 1 } }"#)?;
    let options = ChatOptions::new()
        .tools(vec![tool])
        .add_generation_prompt(true)
        .variable("thinking_budget", 3)
        .now(UNIX_EPOCH + Duration::from_secs(1_709_251_200));
    let template = "{{ tools[0] | tojson }} {{ thinking_budget }} {{ strftime_now('%d %b %Y') }}{% if add_generation_prompt %} go{% endif %}";
    assert_eq!(
        run(template, &options),
        r#"{"type": "function", "function": {"name": "add", "a": 1}} 3 01 Mar 2024 go"#
    );
    let mut several = settings("plain");
    several.templates.insert("tool_use", "with tools");
    assert_eq!(apply(&several, &chat(), &options)?, "with tools");
    let named = ChatOptions::new().chat_template("tool_use");
    assert_eq!(apply(&several, &chat(), &named)?, "with tools");
    let own = ChatOptions::new().chat_template("{{ bos_token }}");
    assert_eq!(apply(&several, &chat(), &own)?, "<s>");
    Ok(())
}

#[test]
fn the_last_message_goes_on() {
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}";
    let options = ChatOptions::new().continue_final_message("content");
    assert_eq!(
        run(template, &options),
        "<system> Be brief. </s><user>2 + 2?</s><assistant>4"
    );
    let trimmed = template.replace("m.content", "m.content | trim");
    let chat = [ChatMessage::assistant("so  ")];
    let text = apply(&settings(&trimmed), &chat, &options);
    assert!(text.is_ok_and(|t| t == "<assistant>so"));
    let both = options.clone().add_generation_prompt(true);
    assert!(run(template, &both).contains("add_generation_prompt"));
    assert!(run("{{ 1 }}", &options).contains("content"));
}

#[test]
fn thoughts_are_known_by_all_their_names() {
    let chat = [ChatMessage::assistant("4")
        .with("reasoning", "easy")
        .with("tool_calls", ChatValue::Null)];
    let template = "{{ messages[0].thinking }} {{ messages[0].reasoning_content }} {{ messages[0].tool_calls is defined }}";
    let text = apply(&settings(template), &chat, &ChatOptions::new());
    assert!(text.is_ok_and(|t| t == "easy easy False"));
}
