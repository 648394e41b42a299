//! The tracing layer: keeps the fields of spans, turns events into lines.

use chrono::Local;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Kept, Said};
use super::line::{Caller, Line};
use super::writer::Handle;

/// Writes every event as one line.
pub struct OsloLayer {
    output: Handle,
    json: bool,
}

impl OsloLayer {
    /// A layer that writes to this output.
    pub fn new(output: Handle, json: bool) -> Self {
        Self { output, json }
    }
}

impl<S> Layer<S> for OsloLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(Kept::of(&fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(kept) = span.extensions_mut().get_mut::<Kept>()
        {
            let mut fields = kept.fields();
            values.record(&mut fields);
            *kept = Kept::of(&fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut caller = Caller::default();
        // From the innermost span outwards: what is nearer wins.
        take_caller(&mut fields, &mut caller);
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(mut outer) = extensions.get::<Kept>().map(Kept::fields) else {
                continue;
            };
            take_caller(&mut outer, &mut caller);
            for (key, value) in outer.pairs {
                if fields.get(key).is_none() {
                    fields.pairs.push((key, value));
                }
            }
        }
        // Events of the log crate carry their target as a field.
        let logged_target = fields.get("log.target").map(Said::to_string);
        fields.pairs.retain(|(key, _)| !key.starts_with("log."));
        let line = Line {
            time: &now(),
            process: std::process::id(),
            level: *event.metadata().level(),
            target: logged_target.as_deref().unwrap_or(event.metadata().target()),
            caller: &caller,
            message: &fields.message,
            fields: &fields.pairs,
        };
        self.output.write(if self.json { line.json() } else { line.text() });
    }
}

/// The line that says how many lines were dropped.
pub(super) fn lost_line(count: u64) -> String {
    Line {
        time: &now(),
        process: std::process::id(),
        level: Level::WARN,
        target: module_path!(),
        caller: &Caller::default(),
        message: "Log lines were dropped because they could not be written fast enough",
        fields: &[("count", Said::Number(count.into()))],
    }
    .text()
}

fn now() -> String {
    Local::now().format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// Moves the fields that have a place of their own in the line.
fn take_caller(fields: &mut Fields, caller: &mut Caller) {
    fields.pairs.retain(|(key, value)| {
        let place = match *key {
            "request.global_id" | "global_request_id" => &mut caller.global_request_id,
            "request.id" | "request_id" => &mut caller.request_id,
            "user.id" => &mut caller.user,
            "project.id" => &mut caller.project,
            _ => return true,
        };
        if place.is_none() {
            *place = Some(value.to_string());
        }
        false
    });
}
