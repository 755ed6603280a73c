//! From the bytes of a `metadata` file to its text.
//!
//! `LTTng` cuts the text into packets (magic number `0x75D11D57`, in either byte order); other
//! producers write plain text.

use crate::error::{Error, Result};

const MAGIC: u32 = 0x75D1_1D57;
const HEADER: usize = 37;

/// The text of a `metadata` file.
///
/// # Errors
///
/// Empty, not UTF-8, not CTF 1.8, a packet header that contradicts itself or the file, or a file
/// that ends inside a packet.
pub fn text(bytes: &[u8]) -> Result<String> {
    if bytes.is_empty() {
        return Err(Error::at_byte(0, "the metadata is empty"));
    }
    let first: Option<[u8; 4]> = bytes.get(..4).and_then(|b| b.try_into().ok());
    let read: fn([u8; 4]) -> u32 = match first {
        Some(b) if u32::from_le_bytes(b) == MAGIC => u32::from_le_bytes,
        Some(b) if u32::from_be_bytes(b) == MAGIC => u32::from_be_bytes,
        _ => return plain(bytes.to_vec()),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let packet = &bytes[at..];
        let cut = |end: usize| {
            Error::at_byte(
                end as u64,
                format!("the metadata ends inside the packet that begins at byte {at}"),
            )
        };
        if packet.len() < HEADER {
            return Err(cut(bytes.len()));
        }
        let word = |i: usize| read([packet[i], packet[i + 1], packet[i + 2], packet[i + 3]]);
        if word(0) != MAGIC {
            return Err(Error::at_byte(
                at as u64,
                "expected the magic number of a metadata packet (0x75D11D57)",
            ));
        }
        let content = u64::from(word(24)) / 8;
        let size = u64::from(word(28)) / 8;
        if content < HEADER as u64 || size < content {
            return Err(Error::at_byte(
                at as u64,
                format!("a metadata packet of {size} bytes cannot hold {content} bytes"),
            ));
        }
        // compression, encryption and checksum schemes
        if packet[32] != 0 || packet[33] != 0 {
            return Err(Error::at_byte(
                at as u64 + 32,
                "compressed or encrypted metadata is not supported",
            ));
        }
        if packet[35] != 1 || packet[36] != 8 {
            return Err(Error::at_byte(
                at as u64 + 35,
                format!("expected CTF 1.8, found {}.{}", packet[35], packet[36]),
            ));
        }
        let (Ok(content), Ok(size)) = (usize::try_from(content), usize::try_from(size)) else {
            return Err(cut(bytes.len()));
        };
        let Some(body) = packet.get(HEADER..content) else {
            return Err(cut(bytes.len()));
        };
        text.extend_from_slice(body);
        // The padding after the last packet is of no use, so it may be missing.
        at = at.saturating_add(size);
    }
    plain(text)
}

fn plain(bytes: Vec<u8>) -> Result<String> {
    let text = String::from_utf8(bytes).map_err(|e| {
        Error::at_byte(
            e.utf8_error().valid_up_to() as u64,
            "the metadata is neither text nor metadata packets",
        )
    })?;
    if let Some(at) = text.bytes().position(|b| b == 0) {
        return Err(Error::at_byte(
            at as u64,
            "the metadata is neither text nor metadata packets",
        ));
    }
    Ok(text)
}
