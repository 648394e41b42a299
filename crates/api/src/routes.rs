//! Every route on one page.
//!
//! Paths are taken as upstream takes them: `/v1` may be left out, a trailing slash does not matter, a known resource with another method
//! is 405 with the methods of its controller, and an unknown one is 404 to GET and 405 to everything else.

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::view::cluster::Depth;
use crate::{certificate, cluster, service, template};

/// Answers a request on a path as it came.
pub async fn dispatch(cx: Context, method: &str, path: &str) -> Result<Answer, ApiError> {
    let decoded = segments(path)?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    match (method, &segments[..]) {
        ("GET", ["clusters"]) => cluster::list::list(&cx, Depth::Short).await,
        ("GET", ["clusters", "detail"]) => cluster::list::list(&cx, Depth::Detail).await,
        ("POST", ["clusters"]) => cluster::create::create(cx).await,
        ("GET", ["clusters", id]) => cluster::show::show(&cx, id).await,
        ("DELETE", ["clusters", id]) => {
            let id = (*id).to_owned();
            cluster::delete::delete(cx, &id).await
        }

        ("GET", ["clustertemplates"]) => template::list::list(&cx, template::list::LIST).await,
        ("GET", ["clustertemplates", "detail"]) => template::list::list(&cx, template::list::DETAIL).await,
        ("POST", ["clustertemplates"]) => template::create::create(&cx).await,
        ("GET", ["clustertemplates", id]) => template::show::show(&cx, id).await,
        ("PATCH", ["clustertemplates", id]) => template::update::update(&cx, id).await,
        ("DELETE", ["clustertemplates", id]) => template::delete::delete(&cx, id).await,

        ("GET", ["certificates", id]) => certificate::show::show(&cx, id).await,
        ("POST", ["certificates"]) => certificate::sign::sign(&cx).await,

        ("GET", ["mservices"]) => service::list::list(&cx).await,

        (method, segments) => Err(no_route(method, segments)),
    }
}

fn no_route(method: &str, segments: &[&str]) -> ApiError {
    let allow = match segments {
        ["clusters" | "clustertemplates"] | ["clusters" | "clustertemplates", _] => "DELETE, GET, PATCH, POST",
        ["certificates"] | ["certificates", _] => "GET, PATCH, POST",
        ["mservices"] => "GET",
        _ if method == "GET" => return ApiError::NoRoute("The resource could not be found.".into()),
        _ => "",
    };
    ApiError::Method { allow }
}

/// The segments below `/v1`. Split first and decoded then: a name may hold any character, a slash too.
fn segments(path: &str) -> Result<Vec<String>, ApiError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = path.strip_prefix("v1/").unwrap_or(path);
    path.split('/').map(decode).collect()
}

/// Replaces `%41` and the like; a percent sign without two digits behind it stands for itself.
fn decode(segment: &str) -> Result<String, ApiError> {
    let mut rest = segment.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits are one byte"));
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).map_err(|_| ApiError::Invalid("The path is not UTF-8.".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_before_they_are_decoded() {
        for (path, expected) in [
            ("/v1/clusters", &["clusters"][..]),
            ("/v1/clusters/", &["clusters"]),
            ("/clusters/a.b", &["clusters", "a.b"]),
            ("/v1/clustertemplates/R&D=x+y", &["clustertemplates", "R&D=x+y"]),
            ("/v1/clustertemplates/a%2Fb%20c", &["clustertemplates", "a/b c"]),
            ("/v1/clusters/100%", &["clusters", "100%"]),
            // Nothing in a path may lead to another route than the path says.
            ("/v1/x&p=/clusters", &["x&p=", "clusters"]),
            ("/v1/v1/clusters", &["v1", "clusters"]),
        ] {
            assert_eq!(segments(path).expect("valid"), expected, "{path}");
        }
        assert!(matches!(segments("/v1/clusters/%ff"), Err(ApiError::Invalid(_))));
    }
}
