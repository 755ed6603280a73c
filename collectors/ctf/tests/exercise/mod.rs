//! Decode any bytes with both decoders, and compare the results.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use roslens_ctf::catalog::{Catalog, Member};
use roslens_ctf::merge::Merge;
use roslens_ctf::metadata;
use roslens_ctf::packet::{Head, head};
use roslens_ctf::plan::Plan;
use roslens_ctf::scan::{Damage, Filter, Packet};
use roslens_ctf::stage::Projection;

/// Most packets that are decoded of one input.
const MAX_PACKETS: usize = 64;

/// Parse `metadata` and decode `stream` accordingly; return the number of events.
///
/// # Panics
///
/// If the fast and the general decoder disagree, or a column is not valid.
pub fn exercise(metadata: &[u8], stream: &[u8]) -> Option<u64> {
    let trace = Arc::new(metadata::parse(metadata).ok()?);
    let catalog = Catalog::new(vec![Member {
        trace,
        host: "h0".into(),
        label: ".".into(),
    }])
    .ok()?;
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
        let last = |damage: &Option<Damage>| damage.as_ref().map(|d| d.last_ns);
        assert_eq!(last(&fast.0), last(&slow.0));
        assert_eq!(fast.1, slow.1);
        events += fast.1.iter().map(|(_, b)| b.num_rows() as u64).sum::<u64>();
    }
    Some(events)
}

/// The damage of a packet, and its batches by table.
type Decoded = (Option<Damage>, Vec<(usize, RecordBatch)>);

fn decode(catalog: &Catalog, stream: &[u8]) -> Vec<Decoded> {
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
        found.push(packet(catalog, bytes, head));
        if total == 0 {
            break;
        }
        at = at.saturating_add(total);
    }
    found
}

fn packet(catalog: &Catalog, bytes: &[u8], head: Head) -> Decoded {
    let filter = Filter {
        tables: vec![true; catalog.tables.len()],
        begin_ns: i64::MIN,
        end_ns: i64::MAX,
    };
    let packet = Packet {
        bytes: Arc::new(bytes.to_vec()),
        start: 0,
        length: bytes.len(),
        head,
        number: 0,
        member: 0,
    };
    let mut merge = Merge::new(catalog, &filter, &Projection::All);
    // Sort the events, because the clocks of damaged packets may go backwards.
    merge.push(packet, (None, None), true).unwrap();
    merge.run_until(None).unwrap();
    while !merge.finish().unwrap() {}
    let mut batches = std::mem::take(&mut merge.ready);
    batches.sort_by_key(|(table, _)| *table);
    for column in batches.iter().flat_map(|(_, batch)| batch.columns()) {
        column.to_data().validate_full().unwrap();
    }
    (merge.damage.pop(), batches)
}
