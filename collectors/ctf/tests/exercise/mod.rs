//! Decode anything, in both ways, and hold the two against each other.

use std::sync::Arc;

use arrow_array::RecordBatch;
use roslens_ctf::catalog::{Catalog, Member};
use roslens_ctf::gather::{View, batch};
use roslens_ctf::metadata;
use roslens_ctf::packet::{Head, head};
use roslens_ctf::plan::Plan;
use roslens_ctf::scan::{Filter, Outcome, Packet, Rows, scan};

/// Most packets looked at in one input.
const MAX_PACKETS: usize = 64;

/// Parse `metadata` and decode `stream` as it says; returns the number of events.
///
/// # Panics
///
/// The fast and the general decoder disagree, or one contradicts itself.
pub fn exercise(metadata: &[u8], stream: &[u8]) -> Option<u64> {
    let trace = Arc::new(metadata::parse(metadata).ok()?);
    let catalog = Catalog::new(vec![Member {
        trace,
        host: "h0".into(),
        label: ".".into(),
    }]);
    let fast = decode(&catalog, stream);
    let mut general = catalog;
    for layout in &mut general.layouts {
        layout.plan = Plan::General;
    }
    for plan in general.streams.iter_mut().flatten() {
        plan.header = None;
    }
    let slow = decode(&general, stream);
    assert_eq!(fast.len(), slow.len());
    let mut events = 0;
    for (fast, slow) in fast.iter().zip(&slow) {
        assert_eq!(fast.0.events, slow.0.events);
        assert_eq!(fast.0.last_ns, slow.0.last_ns);
        assert_eq!(fast.0.stopped.is_some(), slow.0.stopped.is_some());
        assert_eq!(fast.1, slow.1);
        events += fast.0.events;
    }
    Some(events)
}

fn decode(catalog: &Catalog, stream: &[u8]) -> Vec<(Outcome, Vec<RecordBatch>)> {
    let trace = &catalog.members[0].trace;
    let mut found = Vec::new();
    let mut at = 0;
    while at < stream.len() && found.len() < MAX_PACKETS {
        let bytes = &stream[at..];
        let Ok(head) = head(trace, bytes, bytes.len() as u64) else {
            break;
        };
        let total = usize::try_from(head.total_bits / 8).unwrap();
        let bytes = &bytes[..total.min(bytes.len())];
        found.push(packet(catalog, bytes, &head));
        if total == 0 {
            break;
        }
        at = at.saturating_add(total);
    }
    found
}

fn packet(catalog: &Catalog, bytes: &[u8], head: &Head) -> (Outcome, Vec<RecordBatch>) {
    let filter = Filter {
        tables: vec![true; catalog.tables.len()],
        begin_ns: i64::MIN,
        end_ns: i64::MAX,
    };
    let mut rows: Vec<Rows> = catalog.tables.iter().map(|t| Rows::new(t.stride)).collect();
    let packet = Packet {
        bytes,
        head,
        number: 0,
        member: 0,
    };
    let outcome = scan(catalog, packet, &filter, &mut rows);
    let mut events = 0;
    let batches = rows
        .into_iter()
        .enumerate()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(table, rows)| {
            let stride = catalog.tables[table].stride;
            let rows = Rows::merge(vec![rows], stride);
            let view = View {
                bytes,
                head,
                member: 0,
            };
            let made = batch(catalog, table, &rows, 0..rows.len(), None, |_| view).unwrap();
            assert_eq!(made.num_rows(), rows.len());
            events += made.num_rows() as u64;
            made
        })
        .collect();
    assert_eq!(events, outcome.events);
    (outcome, batches)
}
