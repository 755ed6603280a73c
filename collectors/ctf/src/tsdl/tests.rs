//! What the parser takes and what it refuses.

use super::parse;

const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };";

#[test]
fn an_error_names_line_and_column() {
    let error =
        parse("/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; }\nenv").unwrap_err();
    assert_eq!(error.to_string(), "3:1: expected ';', found 'env'");
}

#[test]
fn an_unknown_type_is_refused() {
    let text = format!("{TRACE}\nevent {{ name = a; fields := struct {{ nope x; }}; }};");
    let error = parse(&text).unwrap_err();
    assert_eq!(error.to_string(), "2:38: no type is named 'nope'");
}
