//! What the tracer says it dropped, from the heads of a stream's packets.

/// What was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossKind {
    /// Events for which there was no room.
    DiscardedEvents,
    /// Whole packets, overwritten before they were saved.
    LostPackets,
    /// What was in a packet beyond the point where it can be read.
    Truncated,
}

impl LossKind {
    /// Its name in the table `losses`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DiscardedEvents => "discarded_events",
            Self::LostPackets => "lost_packets",
            Self::Truncated => "truncated",
        }
    }
}

/// What the accounting needs to know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// First time.
    pub begin_ns: Option<i64>,
    /// Last time.
    pub end_ns: Option<i64>,
    /// Number in its stream.
    pub sequence: Option<u64>,
    /// Events discarded so far, and the bits that count has.
    pub discarded: Option<(u64, u32)>,
}

/// Something dropped in a stream between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Packet that revealed it, as index into the packets given.
    pub packet: usize,
    /// What.
    pub kind: LossKind,
    /// How many.
    pub count: u64,
    /// After this time.
    pub begin_ns: Option<i64>,
    /// Before this time.
    pub end_ns: Option<i64>,
}

/// The losses of one stream, given its packets in order.
///
/// The count of discarded events is cumulative and may wrap. Where it goes back by a little, which
/// `LTTng` does in overwrite mode, nothing was discarded since. A packet that occurs twice (two
/// snapshots hold it) counts once. Packets missing before the first are no loss of the tracer: a
/// snapshot or a rotation of files left them out.
#[must_use]
pub fn losses(packets: &[Account]) -> Vec<Loss> {
    let mut found = Vec::new();
    let mut before: Option<Account> = None;
    let mut discarded = 0;
    for (at, packet) in packets.iter().enumerate() {
        if let (Some(before), Some(now)) = (before.and_then(|b| b.sequence), packet.sequence)
            && now <= before
        {
            continue;
        }
        if let (Some(last), Some(now)) = (before.and_then(|b| b.sequence), packet.sequence)
            && now - last > 1
        {
            found.push(Loss {
                packet: at,
                kind: LossKind::LostPackets,
                count: now - last - 1,
                begin_ns: before.and_then(|b| b.end_ns),
                end_ns: packet.begin_ns,
            });
        }
        if let Some((now, bits)) = packet.discarded {
            let mask = crate::bits::mask(bits);
            let count = now.wrapping_sub(discarded) & mask;
            let back = before.is_some() && count > mask / 2;
            if !back {
                discarded = now;
            }
            if count > 0 && !back {
                found.push(Loss {
                    packet: at,
                    kind: LossKind::DiscardedEvents,
                    count,
                    begin_ns: before.and_then(|b| b.end_ns),
                    end_ns: packet.end_ns,
                });
            }
        }
        before = Some(*packet);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u64, discarded: u64, bits: u32) -> Account {
        let at = i64::try_from(sequence).unwrap() * 100;
        Account {
            begin_ns: Some(at),
            end_ns: Some(at + 90),
            sequence: Some(sequence),
            discarded: Some((discarded, bits)),
        }
    }

    #[test]
    fn the_count_is_cumulative() {
        let found = losses(&[packet(0, 3, 64), packet(1, 3, 64), packet(2, 10, 64)]);
        let counts: Vec<_> = found.iter().map(|l| (l.packet, l.count)).collect();
        assert_eq!(counts, [(0, 3), (2, 7)]);
        assert_eq!((found[1].begin_ns, found[1].end_ns), (Some(190), Some(290)));
    }

    #[test]
    fn the_count_wraps_at_its_width() {
        let found = losses(&[packet(0, 0xffff_fffe, 32), packet(1, 2, 32)]);
        assert_eq!(found[1].count, 4);
    }

    #[test]
    fn a_count_that_goes_back_is_no_loss() {
        let found = losses(&[packet(0, 9, 64), packet(1, 7, 64), packet(2, 11, 64)]);
        let counts: Vec<_> = found.iter().map(|l| (l.packet, l.count)).collect();
        assert_eq!(counts, [(0, 9), (2, 2)]);
    }

    #[test]
    fn a_gap_in_the_numbers_is_lost_packets() {
        let found = losses(&[packet(5, 0, 64), packet(9, 0, 64)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].count), (LossKind::LostPackets, 3));
        assert_eq!((found[0].begin_ns, found[0].end_ns), (Some(590), Some(900)));
    }

    #[test]
    fn a_packet_that_occurs_twice_counts_once() {
        let found = losses(&[
            packet(0, 0, 64),
            packet(1, 4, 64),
            packet(1, 4, 64),
            packet(2, 4, 64),
        ]);
        assert_eq!(found.len(), 1);
    }
}
