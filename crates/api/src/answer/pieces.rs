//! The body of an answer, in pieces of a bounded size.
//!
//! A list of a thousand is about a megabyte. In one piece it would be copied each time it outgrows its buffer, then once more into the
//! connection's, and leave holes of its size in the heap; in pieces it goes out as it is, and each is freed as soon as it is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;

/// Bytes of a piece at most.
const PIECE: usize = 32 * 1024;
/// What the first piece begins with: enough for most answers.
const FIRST: usize = 2048;

/// Bytes, written once from the beginning to the end.
#[derive(Debug, Default)]
pub struct Pieces {
    full: VecDeque<Vec<u8>>,
    last: Vec<u8>,
}

impl Pieces {
    /// Bytes that are there already.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { full: VecDeque::new(), last: bytes }
    }

    /// All of it, in one piece.
    pub fn joined(&self) -> Vec<u8> {
        let mut all = self.full.iter().flatten().copied().collect::<Vec<u8>>();
        all.extend_from_slice(&self.last);
        all
    }

    fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    fn turn(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.last.len() + rest.len() > PIECE {
            let (head, tail) = rest.split_at(PIECE - self.last.len());
            self.last.extend_from_slice(head);
            self.full.push_back(mem::replace(&mut self.last, Vec::with_capacity(PIECE)));
            rest = tail;
        }
        self.last.extend_from_slice(rest);
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.last.capacity() == 0 {
            self.last.reserve(FIRST);
        }
        if self.last.len() + bytes.len() <= PIECE {
            self.last.extend_from_slice(bytes);
        } else {
            self.turn(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MessageBody for Pieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let piece = match self.full.pop_front() {
            Some(piece) => piece,
            None => mem::take(&mut self.last),
        };
        Poll::Ready((!piece.is_empty()).then(|| Ok(piece.into())))
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        if self.full.is_empty() { Ok(self.last.into()) } else { Err(self) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pieces_are_bounded_and_come_out_as_they_went_in() {
        for step in [1, 7, 1000, PIECE - 1, PIECE, 3 * PIECE + 5] {
            let wanted: Vec<u8> = (0..4 * PIECE + 11).map(|n| n as u8).collect();
            let mut pieces = Pieces::default();
            for part in wanted.chunks(step) {
                pieces.write_all(part).expect("writing to memory");
            }
            assert_eq!(pieces.size(), BodySize::Sized(wanted.len() as u64));
            assert_eq!(pieces.joined(), wanted);
            let mut seen = Vec::new();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            while let Poll::Ready(Some(Ok(piece))) = Pin::new(&mut pieces).poll_next(&mut cx) {
                assert!(piece.len() <= PIECE);
                seen.extend_from_slice(&piece);
            }
            assert_eq!(seen, wanted, "written {step} at a time");
        }
    }
}
