//! Turn the bytes of a `metadata` file into text.
//!
//! `LTTng` cuts the text into packets (magic number `0x75D11D57`, in either byte order); other
//! producers write plain text.

use crate::error::{Error, Result, fail};
use crate::model::{ByteOrder, Trace};
use crate::{ctf2, tsdl};

const MAGIC: u32 = 0x75D1_1D57;
const HEADER: usize = 37;

/// Parse a `metadata` file in either language (TSDL or CTF 2).
///
/// # Errors
///
/// Those of [`text`], [`tsdl::parse`] and [`ctf2::parse`].
pub fn parse(bytes: &[u8]) -> Result<Trace> {
    let text = text(bytes)?;
    if text.trim_start().starts_with(ctf2::SEPARATOR) {
        ctf2::parse(&text)
    } else {
        let trace = tsdl::parse(&text)?;
        // The packets of metadata have the trace's byte order (CTF 1.8, 7.1).
        let magic = match trace.order {
            Some(ByteOrder::Big) => MAGIC.to_le_bytes(),
            _ => MAGIC.to_be_bytes(),
        };
        if bytes.starts_with(&magic) {
            return fail(
                0,
                "the metadata packets are not of the byte order that they declare",
            );
        }
        Ok(trace)
    }
}

/// Return the text of a `metadata` file.
///
/// # Errors
///
/// The file is empty, is not UTF-8, is neither CTF 1.8 nor 2, ends inside a packet, or has a packet
/// header that contradicts itself or the file.
pub fn text(bytes: &[u8]) -> Result<String> {
    if bytes.is_empty() {
        return fail(0, "the metadata is empty");
    }
    let first: Option<[u8; 4]> = bytes.get(..4).and_then(|b| b.try_into().ok());
    let read: fn([u8; 4]) -> u32 = match first {
        Some(b) if u32::from_le_bytes(b) == MAGIC => u32::from_le_bytes,
        Some(b) if u32::from_be_bytes(b) == MAGIC => u32::from_be_bytes,
        _ => return plain(bytes),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let packet = &bytes[at..];
        let cut = |end: usize| {
            Error::new(
                end as u64,
                format!("the metadata ends inside the packet that begins at byte {at}"),
            )
        };
        if packet.len() < HEADER {
            return Err(cut(bytes.len()));
        }
        let word = |i: usize| read([packet[i], packet[i + 1], packet[i + 2], packet[i + 3]]);
        if word(0) != MAGIC {
            return fail(
                at as u64,
                "expected the magic number of a metadata packet (0x75D11D57)",
            );
        }
        let content = u64::from(word(24)) / 8;
        let size = u64::from(word(28)) / 8;
        if content < HEADER as u64 || size < content {
            return fail(
                at as u64,
                format!("a metadata packet of {size} bytes cannot hold {content} bytes"),
            );
        }
        // Compression and encryption schemes are not supported.
        if packet[32] != 0 || packet[33] != 0 {
            return fail(
                at as u64 + 32,
                "compressed or encrypted metadata is not supported",
            );
        }
        if !matches!((packet[35], packet[36]), (1, 8) | (2, 0)) {
            return fail(
                at as u64 + 35,
                format!("expected CTF 1.8 or 2, found {}.{}", packet[35], packet[36]),
            );
        }
        let (Ok(content), Ok(size)) = (usize::try_from(content), usize::try_from(size)) else {
            return Err(cut(bytes.len()));
        };
        let Some(body) = packet.get(HEADER..content) else {
            return Err(cut(bytes.len()));
        };
        text.extend_from_slice(body);
        // The padding after the last packet may be missing.
        at = at.saturating_add(size);
    }
    plain(&text)
}

fn plain(bytes: &[u8]) -> Result<String> {
    let nul = bytes.iter().position(|b| *b == 0);
    let invalid = std::str::from_utf8(bytes).err().map(|e| e.valid_up_to());
    match nul.into_iter().chain(invalid).min() {
        Some(at) => fail(
            at as u64,
            "the metadata is neither text nor metadata packets",
        ),
        None => Ok(String::from_utf8_lossy(bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str, size: u32, words: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let content = u32::try_from(HEADER + text.len()).unwrap();
        let mut bytes = words(MAGIC).to_vec();
        bytes.extend([7; 16]);
        for word in [0, content * 8, size * 8] {
            bytes.extend(words(word));
        }
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(text.as_bytes());
        bytes.resize(size as usize, 0);
        bytes
    }

    #[test]
    fn packets_are_joined_in_either_byte_order() {
        for words in [u32::to_le_bytes, u32::to_be_bytes] {
            let mut bytes = packet("trace { ", 64, words);
            bytes.extend(packet("};", 48, words));
            assert_eq!(text(&bytes).unwrap(), "trace { };");
        }
    }

    #[test]
    fn a_file_that_ends_inside_a_packet_names_the_byte() {
        let mut bytes = packet("trace { ", 64, u32::to_le_bytes);
        bytes.extend(packet("};", 48, u32::to_le_bytes));
        let error = text(&bytes[..64 + 38]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 102: the metadata ends inside the packet that begins at byte 64"
        );
    }

    #[test]
    fn a_size_that_cannot_hold_the_content_is_refused() {
        let mut bytes = packet("trace { ", 64, u32::to_le_bytes);
        bytes[28..32].copy_from_slice(&80_u32.to_le_bytes());
        assert!(text(&bytes).unwrap_err().what.contains("cannot hold"));
    }
}
