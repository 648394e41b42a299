//! How many requests may be under way at once: pure functions.
//!
//! Progress is counted by requests that may take Heat seconds. They never hold up the lists, which tell what has ended.

/// Requests under way at once, however few are needed.
const LEAST: usize = 8;
/// And however many.
const MOST: usize = 32;
/// Of them, such as count progress. Lists have the others at any time.
const COUNTS: usize = 4;
/// For answers that take so many seconds there are enough places for the requests that are needed.
const ANSWER: f64 = 0.5;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Count,
}

/// What there is a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    None,
    /// For lists only.
    Lists,
    All,
}

/// Requests under way.
#[derive(Debug, Default)]
pub(super) struct Places {
    lists: usize,
    counts: usize,
}

impl Places {
    /// What may be sent now, where stacks need so many requests per second.
    pub fn room(&self, needed: f64) -> Room {
        // A number that is none is none too many.
        let wanted = (needed * ANSWER).ceil() as usize;
        if self.lists + self.counts >= wanted.clamp(LEAST, MOST) {
            Room::None
        } else if self.counts >= COUNTS {
            Room::Lists
        } else {
            Room::All
        }
    }

    pub fn enter(&mut self, kind: Kind) {
        *self.of(kind) += 1;
    }

    pub fn leave(&mut self, kind: Kind) {
        let under_way = self.of(kind);
        *under_way = under_way.saturating_sub(1);
    }

    fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::List => &mut self.lists,
            Kind::Count => &mut self.counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many places can be taken by requests that take whatever there is.
    fn places(needed: f64, kind: Kind) -> usize {
        let mut places = Places::default();
        let fits = |room: Room| room == Room::All || (room == Room::Lists && kind == Kind::List);
        (0..1000).take_while(|_| fits(places.room(needed)).then(|| places.enter(kind)).is_some()).count()
    }

    #[test]
    fn there_are_more_places_where_more_is_needed() {
        let at = |needed: f64| places(needed, Kind::List);
        assert_eq!([0.0, 15.0, 17.0, 35.0, 60.0, 200.0, f64::INFINITY, f64::NAN].map(at), [8, 8, 9, 18, 30, 32, 32, 8]);
    }

    #[test]
    fn counts_leave_places_for_lists_and_lists_take_all() {
        for needed in [0.0, 60.0] {
            assert_eq!(places(needed, Kind::Count), COUNTS);
        }
        let mut places = Places::default();
        for _ in 0..COUNTS {
            places.enter(Kind::Count);
        }
        for _ in COUNTS..LEAST {
            assert_eq!(places.room(0.0), Room::Lists);
            places.enter(Kind::List);
        }
        assert_eq!(places.room(0.0), Room::None);
        places.leave(Kind::Count);
        assert_eq!(places.room(0.0), Room::All);
        places.enter(Kind::List);
        assert_eq!(places.room(0.0), Room::None);
        assert_eq!(places.room(20.0), Room::All);
    }
}
