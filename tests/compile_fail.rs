//! What must not compile, with what the compiler says of it.

#[test]
fn what_would_break_a_promise_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
