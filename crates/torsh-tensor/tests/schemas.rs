//! Signatures of ops as text.

use torsh_tensor::{Signature, Type};

#[test]
fn every_schema_says_what_it_takes() {
    for record in torsh_tensor::ops::records() {
        let s = Signature::parse(record.schema).unwrap_or_else(|e| panic!("{}: {e}", record.name));
        // Whatever comes is what is written so.
        let any = s.params.iter().filter(|p| p.ty == Type::Any).count();
        let words = record.schema.split(['(', ' ', '[', '?']);
        assert_eq!(
            any,
            words.filter(|w| *w == "Any").count(),
            "{}",
            record.name
        );
    }
}

#[test]
fn types_and_defaults_are_read() {
    let s = Signature::parse(
        "(Tensor?[] a, int[2] b=1, float c=1e-05, *, str d='x', float? e=None, int[] f=[1, -2]) -> Tensor",
    )
    .expect("a signature");
    let all: Vec<_> = s
        .params
        .iter()
        .map(|p| (p.list, p.optional, p.keyword))
        .collect();
    assert_eq!(
        all,
        [
            (Some(false), true, false),
            (Some(true), false, false),
            (None, false, false),
            (None, false, true),
            (None, true, true),
            (Some(true), false, true),
        ]
    );
    let defaults: Vec<String> = s.params[1..]
        .iter()
        .map(|p| format!("{:?}", p.default))
        .collect();
    assert_eq!(
        defaults,
        [
            "Some(Int(1))",
            "Some(Float(1e-5))",
            "Some(Str(\"x\"))",
            "Some(None)",
            "Some(List([Int(1), Int(-2)]))",
        ]
    );
    assert!(
        Signature::parse("()")
            .expect("no parameters")
            .params
            .is_empty()
    );
}

#[test]
fn what_is_no_signature_is_refused() {
    for (text, why) in [
        ("Tensor input", "starts with '('"),
        ("(Tensor input", "closing ')'"),
        ("(Tensor input) Tensor", "behind the parameters"),
        ("(Tensor input,)", "not a type and a name"),
        ("(input)", "not a type and a name"),
        ("(Tensr input)", "no type 'Tensr'"),
        ("(Tensor[x] input)", "no type 'Tensor[x]'"),
        ("(int[ a)", "a '[' without"),
        ("(int] a)", "a ']' without"),
        ("(Tensor a, Tensor a)", "a second 'a'"),
        ("(*, *, int a)", "a second '*'"),
        ("(int 1a)", "'1a' is no name"),
        ("(int a=1.5)", "'a' of type int cannot be 1.5"),
        ("(int a=None)", "cannot be None"),
        ("(float a=nan)", "cannot be nan"),
        ("(float a=one)", "cannot be one"),
        ("(bool a=0)", "cannot be 0"),
        ("(str a=mean)", "cannot be mean"),
        ("(str a='mean)", "cannot be 'mean"),
        ("(float a=[1.0])", "cannot be [1.0]"),
        ("(int[] a=[1, x])", "cannot be [1, x]"),
        ("(Tensor a=1)", "cannot be 1"),
    ] {
        let e = Signature::parse(text).expect_err(text).to_string();
        assert!(e.contains(why) && e.contains(text), "{text}: {e}");
    }
}
