//! What users can wish for, how often each wish is drawn, and what a wish that is accepted makes.

use model::operation::OperationKind;
use rand::Rng;
use rand::rngs::StdRng;

/// What a user can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Create,
    Delete,
    ForceDelete,
    Abandon,
    PatchSize,
    PatchHealth,
    Resize,
    ResizeGroup,
    Upgrade,
    AddGroup,
    PatchGroup,
    DeleteGroup,
    RotateAuthorities,
    RotateCredentials,
    PatchTemplate,
    Retry,
    /// Of the oldest operation that is unfinished.
    Cancel,
    /// Of the newest one, which mostly waits behind others.
    CancelNewest,
}

/// What a wish that is accepted makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// An operation of this kind.
    One(OperationKind),
    /// An operation of the kind of the failed one that it does again.
    Again,
    /// Rows are written, or the end of an operation is asked for.
    Nothing,
}

/// Wishes and how often each is drawn, relative to the others.
pub type Table = [(Wish, u32)];

/// What is changed of a cluster that is there. What is about a group is about the default one, or adds one, where there is no other.
pub const CHANGES: &Table = &[
    (Wish::Resize, 20),
    (Wish::ResizeGroup, 12),
    (Wish::RotateCredentials, 11),
    (Wish::PatchSize, 10),
    (Wish::PatchGroup, 9),
    (Wish::DeleteGroup, 9),
    (Wish::Upgrade, 8),
    (Wish::AddGroup, 8),
    (Wish::RotateAuthorities, 7),
    (Wish::PatchHealth, 3),
    (Wish::PatchTemplate, 3),
];

/// How a user is rid of a cluster.
pub const FAREWELLS: &Table = &[(Wish::Delete, 70), (Wish::ForceDelete, 16), (Wish::Abandon, 14)];

/// How the end of an operation is asked for.
pub const CANCELLATIONS: &Table = &[(Wish::Cancel, 2), (Wish::CancelNewest, 1)];

impl Wish {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::ForceDelete => "force-delete",
            Self::Abandon => "abandon",
            Self::PatchSize => "patch size",
            Self::PatchHealth => "patch health",
            Self::Resize => "resize",
            Self::ResizeGroup => "resize group",
            Self::Upgrade => "upgrade",
            Self::AddGroup => "add group",
            Self::PatchGroup => "patch group",
            Self::DeleteGroup => "delete group",
            Self::RotateAuthorities => "rotate authorities",
            Self::RotateCredentials => "rotate credentials",
            Self::PatchTemplate => "patch template",
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::CancelNewest => "cancel the newest",
        }
    }

    /// What comes of it when it is accepted.
    pub fn makes(self) -> Makes {
        match self {
            Self::Create => Makes::One(OperationKind::ClusterCreate),
            Self::Delete => Makes::One(OperationKind::ClusterDelete),
            Self::ForceDelete => Makes::One(OperationKind::ClusterForceDelete),
            Self::Abandon => Makes::One(OperationKind::ClusterAbandon),
            Self::PatchSize => Makes::One(OperationKind::ClusterUpdate),
            Self::Resize | Self::ResizeGroup => Makes::One(OperationKind::ClusterResize),
            Self::Upgrade => Makes::One(OperationKind::ClusterUpgrade),
            Self::AddGroup => Makes::One(OperationKind::NodegroupCreate),
            Self::PatchGroup => Makes::One(OperationKind::NodegroupUpdate),
            Self::DeleteGroup => Makes::One(OperationKind::NodegroupDelete),
            Self::RotateAuthorities => Makes::One(OperationKind::CaRotate),
            Self::RotateCredentials => Makes::One(OperationKind::CredentialRotate),
            Self::Retry => Makes::Again,
            Self::PatchHealth | Self::PatchTemplate | Self::Cancel | Self::CancelNewest => Makes::Nothing,
        }
    }

    /// Whether it asks for the end of an operation.
    pub fn is_cancellation(self) -> bool {
        matches!(self, Self::Cancel | Self::CancelNewest)
    }

    /// Whether administrators alone may ask for it.
    pub fn is_of_admins(self) -> bool {
        matches!(self, Self::ForceDelete | Self::Abandon)
    }

    /// Whether it is about a group beside the default ones.
    pub fn needs_a_group(self) -> bool {
        matches!(self, Self::ResizeGroup | Self::PatchGroup | Self::DeleteGroup)
    }
}

/// Draws a wish.
///
/// # Panics
/// From a table without any.
pub fn draw(random: &mut StdRng, table: &Table) -> Wish {
    let total: u32 = table.iter().map(|(_, often)| often).sum();
    let mut drawn = random.random_range(0..total);
    for (wish, often) in table {
        if drawn < *often {
            return *wish;
        }
        drawn -= often;
    }
    unreachable!("what is drawn is below the sum of all")
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// What `one_cluster` asks for by itself.
    const UNDRAWN: [Wish; 2] = [Wish::Create, Wish::Retry];

    #[test]
    fn users_ask_for_every_kind_of_operation() {
        let tables = [CHANGES, FAREWELLS, CANCELLATIONS];
        let drawn = tables.iter().flat_map(|table| table.iter()).filter(|(_, often)| *often > 0).map(|(wish, _)| *wish);
        let asked: Vec<Wish> = drawn.chain(UNDRAWN).collect();
        for kind in OperationKind::ALL {
            assert!(asked.iter().any(|wish| wish.makes() == Makes::One(*kind)), "nobody asks for {kind:?}");
        }
    }

    #[test]
    fn every_wish_of_a_table_is_drawn_as_often_as_it_says() {
        let mut random = StdRng::seed_from_u64(1);
        let total: u32 = CHANGES.iter().map(|(_, often)| often).sum();
        let drawn: Vec<Wish> = (0..total * 100).map(|_| draw(&mut random, CHANGES)).collect();
        for (wish, often) in CHANGES {
            let times = drawn.iter().filter(|other| *other == wish).count();
            let wanted = 100 * *often as usize;
            assert!(times > wanted / 2 && times < wanted * 2, "{wish:?}: {times} of {wanted}");
        }
    }
}
