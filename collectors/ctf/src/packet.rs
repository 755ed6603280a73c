//! What begins each packet.

use crate::bits::mask;
use crate::model::{Trace, Type};
use crate::walk::{Cursor, State, Stop, field};

/// Largest packet, in bytes: bit positions fit into 32 bits.
pub const MAX_PACKET: u64 = 1 << 29;

const MAGIC: i128 = 0xC1FC_1FC1;

/// A packet's header and context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Stream class, as index into [`Trace::streams`].
    pub stream: usize,
    /// Which of the streams of that class.
    pub instance: Option<u64>,
    /// Clock and cycles at the beginning.
    pub begin: Option<(usize, u64)>,
    /// Clock and cycles at the end.
    pub end: Option<(usize, u64)>,
    /// Bits up to the end of the last event.
    pub content_bits: u64,
    /// Bits up to the next packet.
    pub total_bits: u64,
    /// Number in its stream.
    pub sequence: Option<u64>,
    /// Events discarded in its stream so far, and the bits that count has.
    pub discarded: Option<(u64, u32)>,
    /// CPU that wrote it.
    pub cpu: Option<u64>,
    /// Bit at which the events begin.
    pub events_at: u64,
    /// Values that lengths and tags in its events refer to.
    pub slots: Vec<i128>,
}

/// Why a packet's head could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadError {
    /// More bytes than were given are needed.
    More,
    /// It contradicts the metadata or the file.
    Bad(String),
}

impl From<Stop> for HeadError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::End => Self::More,
            Stop::Bad(what) => Self::Bad(what),
        }
    }
}

/// Read the head of the packet at the start of `bytes`.
///
/// `left` is how many bytes the file has from there on; a packet that states no size takes all.
///
/// # Errors
///
/// See [`HeadError`].
pub fn head(trace: &Trace, bytes: &[u8], left: u64) -> Result<Head, HeadError> {
    let mut state = State::new(trace);
    let mut cursor = Cursor {
        bytes,
        at: 0,
        end: bytes.len() as u64 * 8,
    };
    let mut head = Head::default();
    let mut stream_id = None;
    if let Some(kind @ Type::Struct(header)) = &trace.packet_header {
        cursor.at = crate::bits::align_up(cursor.at, kind.align());
        for member in &header.fields {
            let start = cursor.at;
            let value = field(&mut cursor, member, &mut state, None)?;
            match member.name.as_str() {
                "magic" if value != MAGIC => {
                    return Err(HeadError::Bad(format!(
                        "not a CTF packet: magic number 0x{value:08X}, expected 0xC1FC1FC1"
                    )));
                }
                "uuid" => check_uuid(trace, bytes, start)?,
                "stream_id" => stream_id = u64::try_from(value).ok(),
                "stream_instance_id" => head.instance = u64::try_from(value).ok(),
                _ => {}
            }
        }
    }
    head.stream = match stream_id {
        Some(id) => trace.streams.iter().position(|s| s.id == id),
        None => (!trace.streams.is_empty()).then_some(0),
    }
    .ok_or_else(|| {
        HeadError::Bad(format!(
            "the metadata declares no stream {}",
            stream_id.unwrap_or(0)
        ))
    })?;
    let mut content = None;
    let mut total = None;
    if let Some(kind @ Type::Struct(context)) = &trace.streams[head.stream].packet_context {
        cursor.at = crate::bits::align_up(cursor.at, kind.align());
        for member in &context.fields {
            let value = field(&mut cursor, member, &mut state, None)?;
            let Ok(value) = u64::try_from(value) else {
                continue;
            };
            let (clock, bits) = match &member.kind {
                Type::Int(int) => (int.clock, int.bits),
                _ => continue,
            };
            match member.name.as_str() {
                "timestamp_begin" => head.begin = clock.map(|c| (c, value)),
                "timestamp_end" => head.end = clock.map(|c| (c, value)),
                "content_size" => content = Some(value),
                "packet_size" => total = Some(value),
                "packet_seq_num" => head.sequence = Some(value),
                "events_discarded" => head.discarded = Some((value & mask(bits), bits)),
                // LTTng writes it bare; writers that escape every name put an underscore before it.
                "cpu_id" | "_cpu_id" => head.cpu = Some(value),
                _ => {}
            }
        }
    }
    head.events_at = cursor.at;
    head.slots = state.slots;
    head.total_bits = total.or(content).unwrap_or(left.saturating_mul(8));
    head.content_bits = content.unwrap_or(head.total_bits);
    check_sizes(&head)?;
    Ok(head)
}

fn check_uuid(trace: &Trace, bytes: &[u8], at_bit: u64) -> Result<(), HeadError> {
    let at = usize::try_from(at_bit / 8).map_err(|_| HeadError::More)?;
    let found = bytes.get(at..at + 16).ok_or(HeadError::More)?;
    match &trace.uuid {
        Some(uuid) if uuid != found => Err(HeadError::Bad(
            "its UUID is not that of the metadata: it belongs to another trace".into(),
        )),
        _ => Ok(()),
    }
}

fn check_sizes(head: &Head) -> Result<(), HeadError> {
    let bad = |what: String| Err(HeadError::Bad(what));
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
