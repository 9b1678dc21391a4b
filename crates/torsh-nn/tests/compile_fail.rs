//! What the derive refuses, with the messages a user sees.

#[test]
fn refused_modules() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
