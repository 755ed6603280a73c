//! Read the header and context that begin each packet.

use crate::bits::mask;
use crate::model::{Role, Trace};
use crate::walk::{Cursor, State, Stop, skip};

/// Largest packet, in bytes: bit positions fit into 32 bits.
pub const MAX_PACKET: u64 = 1 << 29;

const MAGIC: u64 = 0xC1FC_1FC1;

/// A packet's header and context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Stream class, as index into [`Trace::streams`].
    pub stream: usize,
    /// Number of the stream among those of that class.
    pub instance: Option<u64>,
    /// Clock and cycles at the beginning.
    pub begin: Option<(usize, u64)>,
    /// Clock and cycles at the end.
    pub end: Option<(usize, u64)>,
    /// Bits up to the end of the last event.
    pub content_bits: u64,
    /// Bits up to the next packet.
    pub total_bits: u64,
    /// Number of the packet in its stream.
    pub sequence: Option<u64>,
    /// Count of events discarded in its stream so far, and the bits of that count.
    pub discarded: Option<(u64, u32)>,
    /// CPU that wrote the packet.
    pub cpu: Option<u64>,
    /// Bit at which the events begin.
    pub events_at: u64,
    /// Values that lengths and tags in its events refer to.
    pub slots: Vec<i128>,
}

/// Read the head of the packet at the start of `bytes`.
///
/// `left` is how many bytes the file has from there on, which a packet without a size takes all.
///
/// # Errors
///
/// More bytes than were given are needed ([`Stop::End`]), or the head contradicts the metadata or
/// the file.
pub fn head(trace: &Trace, bytes: &[u8], left: u64) -> Result<Head, Stop> {
    let mut state = State::new(trace);
    let mut cursor = Cursor {
        bytes,
        at: 0,
        end: bytes.len() as u64 * 8,
    };
    let mut head = Head::default();
    if let Some(kind) = &trace.packet_header {
        skip(&mut cursor, kind, &mut state)?;
    }
    let told = &state.told;
    if let Some(magic) = told.value(Role::Magic)
        && magic != MAGIC
    {
        return Err(Stop::Bad(format!(
            "not a CTF packet: magic number 0x{magic:08X}, expected 0xC1FC1FC1"
        )));
    }
    if let Some(at) = told.uuid_at {
        check_uuid(trace, bytes, at)?;
    }
    head.instance = told.value(Role::StreamInstance);
    head.stream = match told.value(Role::StreamClass) {
        Some(id) => trace.streams.iter().position(|s| s.id == id),
        None => (!trace.streams.is_empty()).then_some(0),
    }
    .ok_or_else(|| {
        let id = told.value(Role::StreamClass).unwrap_or(0);
        Stop::Bad(format!("the metadata declares no stream {id}"))
    })?;
    if let Some(kind) = &trace.streams[head.stream].packet_context {
        skip(&mut cursor, kind, &mut state)?;
    }
    let told = &state.told;
    head.begin = told.time(Role::Begin);
    head.end = told.time(Role::End);
    head.sequence = told.value(Role::Sequence);
    head.cpu = told.value(Role::Cpu);
    head.discarded = told.value(Role::Discarded).map(|count| {
        let bits = told.bits(Role::Discarded);
        (count & mask(bits), bits)
    });
    let content = told.value(Role::ContentSize);
    let total = told.value(Role::TotalSize);
    head.events_at = cursor.at;
    head.slots = state.slots;
    head.total_bits = total.or(content).unwrap_or(left.saturating_mul(8));
    head.content_bits = content.unwrap_or(head.total_bits);
    check_sizes(&head)?;
    Ok(head)
}

fn check_uuid(trace: &Trace, bytes: &[u8], at_bit: u64) -> Result<(), Stop> {
    let at = usize::try_from(at_bit / 8).map_err(|_| Stop::End)?;
    let found = bytes.get(at..at + 16).ok_or(Stop::End)?;
    match &trace.uuid {
        Some(uuid) if uuid != found => Err(Stop::Bad(
            "its UUID is not that of the metadata: it belongs to another trace".into(),
        )),
        _ => Ok(()),
    }
}

fn check_sizes(head: &Head) -> Result<(), Stop> {
    let bad = |what: String| Err(Stop::Bad(what));
    let Head {
        content_bits,
        total_bits,
        events_at,
        ..
    } = *head;
    if content_bits > total_bits {
        return bad(format!(
            "content_size ({content_bits} bits) is larger than packet_size ({total_bits} bits)"
        ));
    }
    if content_bits < events_at {
        return bad(format!(
            "content_size ({content_bits} bits) is smaller than the packet's head ({events_at} bits)"
        ));
    }
    if !total_bits.is_multiple_of(8) {
        return bad(format!(
            "packet_size ({total_bits} bits) is not in whole bytes"
        ));
    }
    if total_bits / 8 > MAX_PACKET {
        return bad(format!(
            "packet_size is {} bytes; at most {MAX_PACKET} are supported",
            total_bits / 8
        ));
    }
    Ok(())
}
