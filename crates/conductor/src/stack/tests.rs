//! What tests share that are about what operations have recorded.

use model::operation::OperationEvent;

/// An event of this kind with this text, and nothing else.
pub(crate) fn event(kind: &str, message: &str) -> OperationEvent {
    let (operation_uuid, cluster_uuid) = (String::new(), String::new());
    OperationEvent { id: 1, operation_uuid, cluster_uuid, at_ms: 0, kind: kind.into(), message: message.into(), details: None }
}
