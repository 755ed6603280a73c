//! Check what is found in packets made byte by byte.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use roslens_ctf::catalog::{Catalog, Member};
use roslens_ctf::merge::{Halt, Merge};
use roslens_ctf::packet::{Head, head};
use roslens_ctf::plan::Plan;
use roslens_ctf::scan::{Damage, Filter, Packet};
use roslens_ctf::stage::Projection;
use roslens_ctf::tsdl;
use roslens_ctf::walk::Stop;

const METADATA: &str = include_str!("lttng_ust.tsdl");
const HEAD: usize = 4 + 16 + 4 + 8 + 6 * 8 + 4;
const BEGIN: u64 = 0x1_2fff_fff0;

fn catalog() -> Catalog {
    Catalog::new(vec![Member {
        trace: Arc::new(tsdl::parse(METADATA).unwrap()),
        host: "h0".into(),
        label: "ust".into(),
    }])
    .unwrap()
}

/// Make a packet of `events`, with `padding` bytes after them.
fn packet(events: &[u8], padding: usize) -> Vec<u8> {
    let content = HEAD + events.len();
    let mut bytes = 0xC1FC_1FC1_u32.to_le_bytes().to_vec();
    bytes.extend(0..16);
    bytes.extend(0_u32.to_le_bytes());
    for word in [
        5,
        BEGIN,
        BEGIN + (1 << 30),
        content as u64 * 8,
        (content + padding) as u64 * 8,
        3,
        7,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(2_u32.to_le_bytes());
    assert_eq!(bytes.len(), HEAD);
    bytes.extend(events);
    bytes.resize(content + padding, 0);
    bytes
}

fn compact(id: u32, time: u64) -> [u8; 4] {
    let low = u32::try_from(time & 0x7ff_ffff).unwrap();
    (low << 5 | id).to_le_bytes()
}

fn common(vpid: i32) -> Vec<u8> {
    let mut bytes = vpid.to_le_bytes().to_vec();
    bytes.extend(b"a name\0garbage!!!");
    bytes
}

fn flat(time: u64, list: &[i16]) -> Vec<u8> {
    let mut bytes = compact(0, time).to_vec();
    bytes.extend(common(-4));
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend(b"text\0");
    bytes.push(u8::try_from(list.len()).unwrap());
    for n in list {
        bytes.extend(n.to_le_bytes());
    }
    bytes
}

/// `odd` = -1 in bits 0..3, `which` in bits 3..8.
fn general(which: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = compact(1, BEGIN).to_vec();
    bytes.extend(common(9));
    bytes.push(0b111 | which << 3);
    bytes.extend(rest);
    bytes
}

/// The batch of each table that has rows, and where the packet is damaged.
type Decoded = (Vec<Option<RecordBatch>>, Option<Damage>);

fn decode(catalog: &Catalog, bytes: &[u8]) -> Result<Decoded, Stop> {
    let head: Head = head(&catalog.members[0].trace, bytes, bytes.len() as u64)?;
    let length = usize::try_from(head.total_bits / 8).unwrap();
    let filter = Filter {
        tables: vec![true; catalog.tables.len()],
        begin_ns: i64::MIN,
        end_ns: i64::MAX,
    };
    let packet = Packet {
        length: length.min(bytes.len()),
        bytes: Arc::new(bytes.to_vec()),
        start: 0,
        head,
        number: 0,
        member: 0,
    };
    let mut found = None;
    // Sorting makes no difference to events that are in order.
    for sort in [true, false] {
        let mut merge = Merge::new(catalog, &filter, &Projection::All);
        let result = merge
            .push(packet.clone(), (None, None), sort)
            .and_then(|()| merge.run_until(None))
            .and_then(|()| merge.finish().map(|done| assert!(done)));
        if result == Err(Halt::Disorder) {
            assert!(!sort);
            continue;
        }
        result.unwrap();
        let mut batches = vec![None; catalog.tables.len()];
        for (table, batch) in merge.ready {
            assert!(batches[table].replace(batch).is_none());
        }
        let now = (batches, merge.damage.pop());
        assert!(found.is_none_or(|before| before == now));
        found = Some(now);
    }
    Ok(found.unwrap())
}

fn rows(batch: Option<&RecordBatch>) -> usize {
    batch.map_or(0, RecordBatch::num_rows)
}

#[test]
fn the_plans_are_as_meant() {
    let catalog = catalog();
    let of = |name: &str| {
        let table = catalog.tables.iter().position(|t| t.name == name).unwrap();
        let layout = catalog.layouts.iter().find(|l| l.table == table);
        &layout.unwrap().plan
    };
    assert!(matches!(of("p:flat"), Plan::Flat(segments, _) if segments.len() == 2));
    assert!(matches!(of("p:general"), Plan::General));
    assert!(catalog.streams[0][0].header.is_some());
}

#[test]
fn every_column_of_a_flat_event() {
    let (batches, damage) = decode(&catalog(), &packet(&flat(BEGIN, &[1, -2]), 9)).unwrap();
    assert_eq!(damage, None);
    let found = batches[0].as_ref().unwrap();
    assert_eq!(found.num_rows(), 1);
    let names: Vec<_> = found
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(
        names,
        [
            "time_ns",
            "host",
            "trace",
            "cpu_id",
            "vpid",
            "vtid",
            "procname",
            "pointer",
            "text",
            "_list_length",
            "list"
        ]
    );
    let time = i64::try_from(BEGIN).unwrap() + 1_000_000;
    assert_eq!(found.column(0).as_primitive::<Int64Type>().value(0), time);
    assert_eq!(found.column(1).as_string_view().value(0), "h0");
    assert_eq!(found.column(2).as_string_view().value(0), "ust");
    assert_eq!(found.column(3).as_primitive::<Int32Type>().value(0), 2);
    assert_eq!(found.column(4).as_primitive::<Int32Type>().value(0), -4);
    assert!(found.column(5).is_null(0));
    assert_eq!(found.column(6).as_string_view().value(0), "a name");
    assert_eq!(
        found.column(7).as_primitive::<UInt64Type>().value(0),
        u64::MAX
    );
    assert_eq!(found.column(8).as_string_view().value(0), "text");
    let list = found.column(10).as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<Int16Type>().values(), &[1, -2]);
}

#[test]
fn bits_enumerations_and_variants() {
    let one: Vec<u8> = [general(0, b"chosen\0"), general(2, &0.5_f64.to_le_bytes())].concat();
    let (batches, damage) = decode(&catalog(), &packet(&one, 0)).unwrap();
    assert_eq!(damage, None);
    let found = batches[1].as_ref().unwrap();
    let odd = found.column_by_name("odd").unwrap();
    assert_eq!(odd.as_primitive::<Int8Type>().values(), &[-1, -1]);
    let which = found.column_by_name("which").unwrap().as_struct();
    let label = which.column_by_name("label").unwrap().as_string_view();
    assert_eq!((label.value(0), label.value(1)), ("none", "one"));
    let either = found.column_by_name("either").unwrap().as_struct();
    let none = either.column_by_name("none").unwrap().as_string_view();
    assert_eq!((none.value(0), none.is_null(1)), ("chosen", true));
    assert!(either.column_by_name("one").unwrap().is_null(0));
}

#[test]
fn a_short_time_wraps_once_and_an_extended_one_is_whole() {
    // 27 bits: BEGIN ends in 0x7fffff0, so 0x10 more wraps.
    let far = BEGIN + (1 << 29);
    let mut events = flat(BEGIN, &[]);
    events.extend(flat(BEGIN + 0x10, &[]));
    let extended = flat(0, &[]);
    events.push(31);
    events.extend(0_u32.to_le_bytes());
    events.extend(far.to_le_bytes());
    events.extend(&extended[4..]);
    events.extend(flat(far + 5, &[]));
    let (batches, damage) = decode(&catalog(), &packet(&events, 0)).unwrap();
    assert_eq!(damage, None);
    let times = batches[0]
        .as_ref()
        .unwrap()
        .column(0)
        .as_primitive::<Int64Type>();
    let expected =
        [BEGIN, BEGIN + 0x10, far, far + 5].map(|t| i64::try_from(t).unwrap() + 1_000_000);
    assert_eq!(times.values(), &expected);
}

#[test]
fn a_cut_packet_keeps_its_whole_events() {
    let event = flat(BEGIN, &[3]);
    let bytes = packet(&[event.clone(), event.clone()].concat(), 4);
    for cut in HEAD..bytes.len() {
        let (batches, damage) = decode(&catalog(), &bytes[..cut]).unwrap();
        let whole = (cut - HEAD) / event.len();
        assert_eq!(rows(batches[0].as_ref()), whole.min(2));
        let torn = cut < HEAD + 2 * event.len();
        assert_eq!(damage.is_some(), torn, "{cut}");
        assert!(damage.is_none_or(|damage| damage.why.is_none()));
    }
    for cut in 0..HEAD {
        assert_eq!(decode(&catalog(), &bytes[..cut]).unwrap_err(), Stop::End);
    }
}

#[test]
fn a_length_beyond_the_packet_is_damage() {
    let mut event = flat(BEGIN, &[3]);
    let length = event.len() - 3;
    event[length] = 200;
    let (batches, damage) = decode(&catalog(), &packet(&event, 0)).unwrap();
    assert_eq!(batches[0], None);
    let damage = damage.unwrap();
    assert_eq!((damage.at, damage.last_ns), (HEAD as u64, None));
    assert_eq!(
        damage.why.unwrap(),
        "an event reaches beyond the end of its packet"
    );
}

#[test]
fn heads_that_contradict_themselves() {
    let good = packet(&flat(BEGIN, &[]), 0);
    let with = |at: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        match decode(&catalog(), &bytes) {
            Err(Stop::Bad(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    let content = 4 + 16 + 4 + 8 + 16;
    assert!(with(0, 1).contains("not a CTF packet"));
    assert!(with(4, 1).contains("belongs to another trace"));
    assert!(with(20, 9).contains("declares no stream 9"));
    assert!(with(content, 8).contains("smaller than the packet's head"));
    assert!(with(content + 8, 8).contains("larger than packet_size"));
    assert!(with(content + 8, u64::MAX).contains("not in whole bytes"));
    assert!(with(content + 8, 1 << 40).contains("at most"));
}

/// The tables must not grow with the square of N classes of one name, each with a field of its own.
#[test]
fn very_many_classes_of_one_name_are_refused() {
    let declare = |count: usize| {
        let mut text = String::from(
            "trace { major = 1; minor = 8; byte_order = le; };
             typealias integer { size = 8; } := u8;
             stream { event.header := struct { u8 id; }; };\n",
        );
        for id in 0..count {
            write!(
                text,
                "event {{ name = e; id = {id}; fields := struct {{ u8 x{id}; }}; }};"
            )
            .unwrap();
        }
        Catalog::new(vec![Member {
            trace: Arc::new(tsdl::parse(&text).unwrap()),
            host: "h0".into(),
            label: ".".into(),
        }])
    };
    assert_eq!(declare(200).unwrap().tables[0].columns.len(), 200 + 3);
    let error = declare(2200).unwrap_err().to_string();
    assert!(
        error.contains("event 'e' is declared 2200 times"),
        "{error}"
    );
}
