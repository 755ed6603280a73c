//! Check which texts the parser accepts and which it refuses.

use super::parse;
use crate::metadata;
use crate::model::{ByteOrder, Length, Reference, Type};

const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };";

fn event(fields: &str) -> String {
    format!("{TRACE}\nstream {{ }};\nevent {{ name = e; fields := struct {{ {fields} }}; }};")
}

fn payload(fields: &str) -> Vec<crate::model::Field> {
    let trace = parse(&event(fields)).unwrap();
    let payload = trace.streams[0].events[0].payload.clone().unwrap();
    payload.as_struct().unwrap().fields.clone()
}

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

#[test]
fn the_byte_order_holds_for_types_declared_before_the_trace_block() {
    let text = "typealias integer { size = 16; } := u16;
        trace { major = 1; minor = 8; byte_order = be; packet.header := struct { u16 x; }; };";
    let trace = parse(text).unwrap();
    let header = trace.packet_header.unwrap();
    let Type::Int(int) = &header.as_struct().unwrap().fields[0].kind else {
        panic!("not an integer");
    };
    assert_eq!((int.order, int.bits, int.align), (ByteOrder::Big, 16, 8));
}

#[test]
fn names_of_types_may_be_several_words() {
    let text = format!(
        "typealias integer {{ size = 64; }} := unsigned long;\n{}",
        event("unsigned long x; const unsigned long y;")
    );
    let trace = parse(&text).unwrap();
    let payload = trace.streams[0].events[0].payload.clone().unwrap();
    assert_eq!(payload.as_struct().unwrap().fields.len(), 2);
}

#[test]
fn the_first_dimension_is_the_outermost() {
    let fields = payload("integer { size = 8; } x[2][3];");
    let Type::Array(outer) = &fields[0].kind else {
        panic!("not an array");
    };
    let Type::Array(inner) = &outer.element else {
        panic!("not an array of arrays");
    };
    assert_eq!(
        (&outer.length, &inner.length),
        (&Length::Fixed(2), &Length::Fixed(3))
    );
}

#[test]
fn a_length_is_found_in_the_enclosing_structure() {
    let fields = payload(
        "integer { size = 8; } n; struct { integer { size = 8; } m; string a[n]; string b[m]; } s;",
    );
    assert!(fields[0].slot.is_some());
    let inner = fields[1].kind.as_struct().unwrap();
    let slot_of = |kind: &Type| match kind {
        Type::Array(a) => match a.length {
            Length::Field(Reference::Slot(slot)) => Some(slot),
            _ => None,
        },
        _ => None,
    };
    assert_eq!(slot_of(&inner.fields[1].kind), fields[0].slot);
    assert_eq!(slot_of(&inner.fields[2].kind), inner.fields[0].slot);
    assert_ne!(fields[0].slot, inner.fields[0].slot);
}

#[test]
fn a_length_may_lie_in_another_scope() {
    let text = format!(
        "{TRACE} stream {{ event.context := struct {{ integer {{ size = 8; }} n; }}; }};
         event {{ name = a; fields := struct {{ string x[stream.event.context.n]; }}; }};
         event {{ name = b; id = 1; fields := struct {{ string x[n]; }}; }};"
    );
    assert_eq!(parse(&text).unwrap().slots, 1);
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    let cases = [
        ("string x[n];", "no field 'n' is decoded before this one"),
        (
            "string x[n]; integer { size = 8; } n;",
            "no field 'n' is decoded before this one",
        ),
        (
            "integer { size = 8; signed = true; } n; string x[n];",
            "must be an unsigned integer",
        ),
        (
            "integer { size = 8; } t; variant <t> { string a; } v;",
            "must be an enum",
        ),
    ];
    for (fields, what) in cases {
        let error = parse(&event(fields)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn labels_count_on_and_choose_options() {
    let fields = payload(
        "enum : integer { size = 8; } { a, b = 5, c, d = 10 ... 20 } t;
         variant <t> { string d; integer { size = 8; } c; } v;",
    );
    let Type::Int(tag) = &fields[0].kind else {
        panic!("not an enum");
    };
    let ranges: Vec<_> = tag.mappings.iter().map(|m| (m.low, m.high)).collect();
    assert_eq!(ranges, [(0, 0), (5, 5), (6, 6), (10, 20)]);
    let Type::Variant(variant) = &fields[1].kind else {
        panic!("not a variant");
    };
    assert_eq!(variant.choices, [(6, 6, 1), (10, 20, 0)]);
}

#[test]
fn named_structures_variants_and_enums_are_found() {
    let text = format!(
        "struct point {{ integer {{ size = 8; }} x; }};
         enum mood : integer {{ size = 8; }} {{ calm, busy }};
         variant either {{ string calm; struct point busy; }};
         {}",
        event("struct point p; enum mood m; variant either <m> e;")
    );
    parse(&text).unwrap();
}

#[test]
fn what_a_trace_cannot_have_is_refused() {
    let cases = [
        ("", "the metadata ends without a 'trace' block"),
        (
            "trace { major = 1; minor = 9; byte_order = le; };",
            "expected CTF 1.8, found 1.9",
        ),
        ("trace { major = 1; minor = 8; };", "has no byte_order"),
    ];
    for (text, what) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    for (more, what) in [
        ("clock { freq = 1; };", "a clock without a name"),
        ("clock { name = c; freq = 0; };", "a clock of frequency 0"),
        (
            "stream { id = 1; }; stream { id = 1; };",
            "a second stream 1",
        ),
        (
            "stream { }; event { name = a; }; event { name = b; };",
            "have the same id 0",
        ),
        (
            "stream { id = 1; }; event { name = a; stream_id = 2; };",
            "no stream has id 2",
        ),
        (
            "typealias integer { size = 4097; } := x;",
            "an integer of 4097 bits",
        ),
        (
            "typealias integer { size = 8; align = 3; } := x;",
            "expected a power of two",
        ),
        (
            "typealias integer { size = 8; map = clock.none.value; } := x;",
            "no clock is named 'none'",
        ),
        (
            "typealias floating_point { exp_dig = 5; mant_dig = 11; } := x;",
            "expected 8, 24 or 11, 53",
        ),
    ] {
        let error = parse(&format!("{TRACE} {more}")).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn no_cut_or_change_of_the_text_panics() {
    let text = include_str!("../../tests/lttng_ust.tsdl");
    parse(text).unwrap();
    for end in 0..text.len() {
        // A cut text is accepted only if it is a number of whole blocks.
        let cut = &text[..end];
        assert!(
            parse(cut).is_err() || cut.trim_end().ends_with(';'),
            "{end}"
        );
    }
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 8).unwrap()
    };
    let alphabet = b"{}[]<>();:=.,-*0123456789 abcxyz_\"\\/\n\0\xff";
    for _ in 0..3_000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=next() % 4 {
            let at = next() % bytes.len();
            match next() % 3 {
                0 => bytes[at] = alphabet[next() % alphabet.len()],
                1 => drop(bytes.drain(at..(at + next() % 40).min(bytes.len()))),
                _ => {
                    let from = next() % bytes.len();
                    let piece = bytes[from..(from + next() % 80).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        if let Ok(text) = metadata::text(&bytes) {
            let _ = parse(&text);
        }
    }
}

#[test]
fn what_the_language_does_not_allow_is_refused() {
    const U8: &str = "integer { size = 8; }";
    for (more, what) in [
        (
            "struct s { integer { size = 8; } stream; };".into(),
            "which a keyword cannot be, found 'stream'",
        ),
        (
            format!("typealias {U8} := event;"),
            "expected the name of a type, found the keyword 'event'",
        ),
        (format!("enum e : {U8} {{ }};"), "an enum without labels"),
        (
            format!("enum e : {U8} {{ a = 256 }};"),
            "label 'a': expected values from 0 to 255",
        ),
        (
            "typealias integer { size = 8; base = seven; } := x;".into(),
            "base: expected decimal",
        ),
        (
            "typealias integer { size = 8; signed = \"true\"; } := x;".into(),
            "signed: expected a word without quotes",
        ),
        (format!("typedef {U8} x[n];"), "expected a number as length"),
        (
            "stream { id = 1; }; stream { id = 2; }; event { name = a; };".into(),
            "event 'a': expected a stream_id",
        ),
    ] {
        let error = parse(&format!("{TRACE} {more}")).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn what_is_not_known_is_passed_over() {
    let text = format!(
        "{TRACE} env {{ a = 'x'; }}; struct point {{ integer {{ size = 8; }} x; }}
         stream {{ odd := struct point; other = 1; }};
         event {{ name = a; loglevel = 3; model.emf.uri = \"here\"; odd := struct point; }};"
    );
    assert_eq!(parse(&text).unwrap().env("a"), Some("x"));
}

#[test]
fn a_typedef_may_not_rename_what_c_reserves() {
    let text = format!("{TRACE}\ntypealias integer {{ size = 8; }} := u8;\ntypedef u8 int;");
    let error = parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3:9: expected the name of a type, found the keyword 'int'"
    );
    let text = text.replace("typedef u8 int", "typealias u8 := unsigned int");
    parse(&text).unwrap();
}

#[test]
fn a_variant_that_no_label_can_choose_is_refused_though_unused() {
    let text = format!(
        r#"{TRACE}
struct unused {{
    enum : integer {{ size = 8; }} {{ " a ", "b" }} tag;
    variant <tag> {{ string a; }} v;
}};"#
    );
    let error = parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4:14: no label of 'tag' is an option of the variant"
    );
    parse(&text.replace("\" a \"", "\"a\"")).unwrap();
}

#[test]
fn log_level_and_model_are_kept() {
    let text = event("string x;").replace(
        "name = e;",
        "name = e; loglevel = 13; model.emf.uri = \"http://example.org\"; other = 3;",
    );
    let class = &parse(&text).unwrap().streams[0].events[0];
    assert_eq!(class.log_level, Some(13));
    assert_eq!(class.emf_uri.as_deref(), Some("http://example.org"));
}

/// Return the number of the payload's field that holds the length of the array at (or in) `path`.
fn length_of(fields: &str, path: [usize; 2]) -> Option<usize> {
    let fields = payload(fields);
    let inner = fields[path[0]].kind.as_struct().unwrap();
    let mut kind = &inner.fields[path[1]].kind;
    if let Type::Struct(s) = kind {
        kind = &s.fields[0].kind;
    }
    let Type::Array(array) = kind else {
        panic!("not an array");
    };
    let Length::Field(Reference::Slot(slot)) = array.length else {
        panic!("not resolved");
    };
    fields.iter().position(|f| f.slot == Some(slot))
}

/// CTF 1.8.3, 7.3.1: types have the scope of their declaration.
#[test]
fn a_named_type_refers_to_what_is_around_its_declaration() {
    let u8 = "integer { size = 8; }";
    // It refers to the field around the declaration, not to a nearer one (of any type) at the use.
    for near in ["string", u8] {
        let fields = format!(
            "{u8} n; typedef struct {{ {u8} a[n]; }} named; struct {{ {near} n; named x; }} s;"
        );
        assert_eq!(length_of(&fields, [1, 1]), Some(0));
        let fields = format!("{u8} n; typedef {u8} named[n]; struct {{ {near} n; named x; }} s;");
        assert_eq!(length_of(&fields, [1, 1]), Some(0));
    }
    // A structure that is written in place refers to the nearer field.
    let fields = format!("{u8} n; struct {{ {u8} n; struct {{ {u8} a[n]; }} x; }} s;");
    assert_eq!(length_of(&fields, [1, 1]), None);
    // If there is no such field around the declaration, it refers to that around the use.
    let text = format!("struct named {{ {u8} a[n]; }};\n");
    let text = text + &event(&format!("{u8} n; struct {{ struct named x; }} s;"));
    assert!(parse(&text).is_ok());
}

#[test]
fn a_field_after_the_declaration_of_a_type_is_not_what_it_refers_to() {
    let u8 = "integer { size = 8; }";
    let fields = payload(&format!(
        "{u8} n; struct {{ typedef {u8} named[n]; {u8} n; named x; }} s;"
    ));
    assert!(fields[0].slot.is_some());
}

#[test]
fn an_integer_may_be_wider_than_64_bits() {
    let fields = payload("integer { size = 1024; signed = true; } x;");
    assert!(matches!(&fields[0].kind, Type::WideInt(int) if int.bits == 1024 && int.signed));
    for (fields, said) in [
        ("integer { size = 4097; } x;", "expected 1 to 4096"),
        (
            "integer { size = 65; } n; string x[n];",
            "must be an unsigned integer",
        ),
        (
            "enum : integer { size = 65; } { a } x;",
            "integers of at most 64 bits",
        ),
    ] {
        let error = parse(&event(fields)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let text = "trace { major = 1; minor = 8; byte_order = le; };
        stream { packet.context := struct { integer { size = 128; } packet_size; }; };";
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains("'packet_size' has 128 bits"), "{error}");
}

#[test]
fn the_base_of_an_integer_is_kept() {
    let fields = payload("integer { size = 64; base = x; } p; integer { size = 8; base = 8; } o;");
    let bases = fields.iter().map(|f| match &f.kind {
        Type::Int(int) => int.base,
        _ => 0,
    });
    assert_eq!(bases.collect::<Vec<_>>(), [16, 8]);
}

/// CTF 1.8.3, 8: without a description of clocks, times are in nanoseconds.
#[test]
fn times_that_name_no_clock_have_the_one_there_is() {
    let clocks = |declared: &str, mapped: &str| {
        parse(&format!(
            "{TRACE} {declared} stream {{
               packet.context := struct {{ integer {{ size = 64; }} timestamp_end; }};
               event.header := struct {{ integer {{ size = 64; {mapped} }} timestamp; }}; }};"
        ))
    };
    let header = |trace: &crate::model::Trace| {
        let header = trace.streams[0].event_header.as_ref().unwrap();
        let Type::Int(int) = &header.as_struct().unwrap().fields[0].kind else {
            panic!("not an integer");
        };
        int.clock
    };
    let trace = clocks("", "").unwrap();
    assert_eq!(header(&trace), Some(0));
    assert_eq!(trace.clocks[0].to_ns(5), Some(5));
    let one = "clock { name = a; freq = 1000; };";
    let trace = clocks(one, "").unwrap();
    assert_eq!(header(&trace), Some(0));
    assert_eq!(trace.clocks.len(), 1);
    let two = format!("{one} clock {{ name = b; }};");
    let error = clocks(&two, "").unwrap_err().to_string();
    assert!(
        error.contains("'timestamp' does not say which of the 2 clocks"),
        "{error}"
    );
    // The packet's time has the clock of its events.
    let trace = clocks(&two, "map = clock.b.value;").unwrap();
    assert_eq!(header(&trace), Some(1));
}
