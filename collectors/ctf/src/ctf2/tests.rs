//! Check which metadata the front end accepts and which it refuses.

use super::parse;
use crate::model::{ByteOrder, Length, Reference, Trace, Type};
use crate::walk::{Cursor, EMPTY, State, Stop, skip};

const PREAMBLE: &str = r#"{"type": "preamble", "version": 2}"#;
const STREAM: &str = r#"{"type": "data-stream-class"}"#;

fn read(fragments: &[&str]) -> crate::error::Result<Trace> {
    let text = fragments
        .iter()
        .fold(String::new(), |all, f| all + "\u{1e}" + f + "\n");
    parse(&text)
}

fn event(members: &str) -> String {
    format!(
        r#"{{"type": "event-record-class", "name": "e", "payload-field-class":
            {{"type": "structure", "member-classes": [{members}]}}}}"#
    )
}

fn payload(members: &str) -> crate::error::Result<Vec<crate::model::Field>> {
    let trace = read(&[PREAMBLE, STREAM, &event(members)])?;
    let payload = trace.streams[0].events[0].payload.clone().unwrap();
    Ok(payload.as_struct().unwrap().fields.clone())
}

fn member(name: &str, class: &str) -> String {
    format!(r#"{{"name": "{name}", "field-class": {class}}}"#)
}

const U8: &str =
    r#"{"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian"}"#;

#[test]
fn an_error_names_fragment_and_pointer() {
    let error = payload(&member("x", r#"{"type": "static-length-string"}"#)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fragment 3: /payload-field-class/member-classes/0/field-class: \
         expected a property 'length'"
    );
}

#[test]
fn the_usual_bit_order_depends_on_the_byte_order() {
    let class = |order: &str, bits: &str| {
        format!(
            r#"{{"type": "fixed-length-unsigned-integer", "length": 3,
                "byte-order": "{order}", "bit-order": "{bits}"}}"#
        )
    };
    for (order, bits, model, reversed) in [
        ("little-endian", "first-to-last", ByteOrder::Little, false),
        ("little-endian", "last-to-first", ByteOrder::Little, true),
        ("big-endian", "last-to-first", ByteOrder::Big, false),
        ("big-endian", "first-to-last", ByteOrder::Big, true),
    ] {
        let fields = payload(&member("x", &class(order, bits))).unwrap();
        let Type::Int(int) = &fields[0].kind else {
            panic!("not an integer");
        };
        assert_eq!((int.order, int.reversed, int.align), (model, reversed, 1));
    }
}

#[test]
fn aliases_are_field_classes() {
    let alias = format!(r#"{{"type": "field-class-alias", "name": "u8", "field-class": {U8}}}"#);
    let again = r#"{"type": "field-class-alias", "name": "byte", "field-class": "u8"}"#;
    let used = event(r#"{"name": "x", "field-class": "byte"}"#);
    assert!(read(&[PREAMBLE, &alias, again, STREAM, &used]).is_ok());
    let error = read(&[PREAMBLE, again]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fragment 2: /field-class: no field class alias is named 'u8'"
    );
}

#[test]
fn locations_that_share_a_field_share_its_slot() {
    // The length is in one of two options: they share one slot.
    let length = r#"{"path": ["v", "n"]}"#;
    let option = |at: u32| {
        format!(
            r#"{{"selector-field-ranges": [[{at}, {at}]], "field-class":
                {{"type": "structure", "member-classes": [{}]}}}}"#,
            member("n", U8)
        )
    };
    let fields = payload(&format!(
        "{}, {}, {}",
        member("s", U8),
        member(
            "v",
            &format!(
                r#"{{"type": "variant", "selector-field-location": {{"path": ["s"]}},
                    "options": [{}, {}]}}"#,
                option(0),
                option(1)
            )
        ),
        member(
            "b",
            &format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {length}}}"#)
        ),
    ))
    .unwrap();
    let (Type::Variant(variant), Type::Array(blob)) = (&fields[1].kind, &fields[2].kind) else {
        panic!("not a variant and an array");
    };
    let Length::Field(Reference::Slot(slot)) = blob.length else {
        panic!("no slot");
    };
    for option in &variant.options {
        assert_eq!(option.kind.as_struct().unwrap().fields[0].slot, Some(slot));
    }
}

#[test]
fn a_length_of_an_element_before_does_not_count() {
    let one = member("n", U8);
    let element = format!(
        r#"{{"type": "structure", "member-classes": [{}, {}, {}]}}"#,
        member("s", U8),
        member(
            "v",
            &format!(
                r#"{{"type": "variant", "selector-field-location": {{"path": ["s"]}}, "options": [
                    {{"selector-field-ranges": [[0, 0]], "field-class":
                        {{"type": "structure", "member-classes": [{one}]}}}},
                    {{"selector-field-ranges": [[1, 1]], "field-class": {{"type": "structure"}}}}
                ]}}"#
            )
        ),
        member(
            "b",
            r#"{"type": "dynamic-length-blob", "length-field-location": {"path": ["v", "n"]}}"#
        ),
    );
    let array = format!(
        r#"{{"type": "static-length-array", "length": 2, "element-field-class": {element}}}"#
    );
    let fields = payload(&member("a", &array)).unwrap();
    let read = |bytes: &[u8]| {
        let mut cursor = Cursor {
            bytes,
            at: 0,
            end: bytes.len() as u64 * 8,
        };
        let mut state = State {
            slots: vec![EMPTY; 2],
            ..State::default()
        };
        skip(&mut cursor, &fields[0].kind, &mut state).map(|_| cursor.at / 8)
    };
    assert_eq!(read(&[0, 1, 7, 0, 2, 8, 9]), Ok(7));
    let missing = "a length or tag whose field is not there in this event";
    assert_eq!(read(&[0, 1, 7, 1, 2]), Err(Stop::Bad(missing.into())));
}

fn refused(fragments: &[&str], what: &str) {
    let error = read(fragments).unwrap_err();
    assert!(error.to_string().contains(what), "{error} / {what}");
}

#[test]
fn fragments_that_cannot_be_are_refused() {
    refused(&[], "no fragments");
    refused(&[STREAM], "fragment 1: /type: expected the preamble first");
    refused(&[PREAMBLE], "no data stream class");
    refused(&["[1]"], "expected an object, found an array");
    refused(&["{"], "fragment 1: expected JSON");
    refused(
        &[r#"{"type": "preamble", "version": 3}"#],
        "/version: expected CTF version 2, found 3",
    );
    refused(
        &[r#"{"type": "preamble", "version": 2, "extensions": {"me": {"it": 1}}}"#],
        "/extensions/me/it: the extension 'it' of 'me' is not supported",
    );
    refused(
        &[
            PREAMBLE,
            r#"{"type": "clock-class", "id": "c", "frequency": 0}"#,
        ],
        "/frequency: expected a frequency above 0, found 0",
    );
    refused(
        &[
            PREAMBLE,
            r#"{"type": "data-stream-class", "default-clock-class-id": "c"}"#,
        ],
        "no clock class has id 'c'",
    );
    refused(&[PREAMBLE, STREAM, STREAM], "a second data stream class 0");
}

#[test]
fn field_classes_that_cannot_be_are_refused() {
    let blob = |path: &str| {
        let location = format!(r#"{{"path": {path}}}"#);
        let class =
            format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {location}}}"#);
        member("b", &class)
    };
    let text = member("n", r#"{"type": "null-terminated-string"}"#);
    let with = |more: &str| member("x", &U8.replace('}', &format!(", {more}}}")));
    let twice = format!("{}, {}", member("x", U8), member("x", U8));
    for (members, what) in [
        (
            blob(r#"["n"]"#),
            "length-field-location/path: no field is decoded before this one at 'n'",
        ),
        (
            blob(r#"["n", null]"#),
            "expected a path that ends with a name",
        ),
        (
            format!("{text}, {}", blob(r#"["n"]"#)),
            "the length 'n' must be an unsigned integer",
        ),
        (
            member("x", &U8.replace('8', "4097")),
            "/length: expected a length of 1 to 4096 bits, found 4097",
        ),
        (
            with(r#""alignment": 3"#),
            "/alignment: expected a power of two",
        ),
        (
            with(r#""roles": ["event-record-class-id"]"#),
            "/roles/0: this role is not for fields at this place",
        ),
        (twice, "/member-classes/1/name: a second member 'x'"),
    ] {
        refused(&[PREAMBLE, STREAM, &event(&members)], what);
    }
}

/// They are as `LTTng` (by number) and Babeltrace (by name) write them; others are ignored.
#[test]
fn log_level_namespace_and_model_are_kept() {
    for (attributes, level, uri) in [
        (r#"{"lttng.org,2009": {"log-level": 13}}"#, Some(13), None),
        (
            r#"{"babeltrace.org,2020": {"log-level": "debug:system", "emf-uri": "u"}}"#,
            Some(7),
            Some("u"),
        ),
        (
            r#"{"babeltrace.org,2020": {"log-level": "loud"}}"#,
            None,
            None,
        ),
        (
            r#"{"me": {"log-level": 1}, "lttng.org,2009": 5}"#,
            None,
            None,
        ),
        ("7", None, None),
    ] {
        let event = format!(
            r#"{{"type": "event-record-class", "name": "e", "namespace": "n",
                "attributes": {attributes}}}"#
        );
        let trace = read(&[PREAMBLE, STREAM, &event]).unwrap();
        let class = &trace.streams[0].events[0];
        assert_eq!(class.log_level, level);
        assert_eq!(class.emf_uri.as_deref(), uri);
        assert_eq!(class.namespace.as_deref(), Some("n"));
    }
}

#[test]
fn drafts_name_clocks_and_list_where_fields_are() {
    let clock = r#"{"type": "clock-class", "name": "c", "frequency": 1000}"#;
    let stream = r#"{"type": "data-stream-class", "default-clock-class-name": "c"}"#;
    let kind = U8.replace("integer", "enumeration");
    let fields = |location: &str| {
        let blob =
            format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {location}}}"#);
        event(&format!("{}, {}", member("n", &kind), member("b", &blob)))
    };
    let whole = fields(r#"["event-record-payload", "n"]"#);
    let trace = read(&[PREAMBLE, clock, stream, &whole]).unwrap();
    assert_eq!(trace.clocks[0].name, "c");
    refused(
        &[PREAMBLE, STREAM, &fields(r#"["nowhere", "n"]"#)],
        "length-field-location/0: expected 'packet-header'",
    );
}
