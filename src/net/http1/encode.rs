//! A request's head as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use http::{Method, header};

use crate::net::{error::NetError, message::Request, target::Target};

/// Writes the head. Header names and values are valid by their types; method and path are checked
/// here.
///
/// # Errors
/// [`NetError::InvalidRequest`] when the path could end the request line early.
pub(in crate::net) fn encode(target: &Target, request: &Request) -> Result<Bytes, NetError> {
    let is_path = request.path.starts_with('/');
    if !is_path || !request.path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(NetError::InvalidRequest("the path is not one, or not percent-encoded"));
    }
    if request.method == Method::CONNECT {
        return Err(NetError::InvalidRequest("tunnels are not made"));
    }
    let mut head = BytesMut::with_capacity(512 + request.path.len());
    for part in [request.method.as_str(), " ", target.prefix(), &request.path] {
        head.put_slice(part.as_bytes());
    }
    head.put_slice(b" HTTP/1.1\r\nhost: ");
    head.put_slice(target.authority().as_bytes());
    head.put_slice(b"\r\n");
    for (name, value) in &request.headers {
        if is_ours(name) {
            continue;
        }
        line(&mut head, name.as_str(), value.as_bytes());
    }
    if !request.headers.contains_key(header::ACCEPT_ENCODING) {
        line(&mut head, "accept-encoding", b"identity");
    }
    let has_length =
        !request.body.is_empty() || matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
    if has_length {
        line(&mut head, "content-length", request.body.len().to_string().as_bytes());
    }
    head.put_slice(b"\r\n");
    Ok(head.freeze())
}

/// Whether only this client may write the header.
fn is_ours(name: &header::HeaderName) -> bool {
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name)
}

fn line(head: &mut BytesMut, name: &str, value: &[u8]) {
    head.put_slice(name.as_bytes());
    head.put_slice(b": ");
    head.put_slice(value);
    head.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;

    use super::*;
    use crate::domain::provider::Transport;

    fn encoded(base: &str, path: &str, headers: &[(&str, &str)], body: &'static str) -> String {
        let target = Target::parse(base, Transport::Http1, Duration::from_secs(1)).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let request = Request {
            method: Method::POST,
            path: path.to_owned(),
            headers: map,
            body: Bytes::from_static(body.as_bytes()),
        };
        String::from_utf8(encode(&target, &request).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_head_is_written_as_it_goes_out() {
        assert_eq!(
            encoded("http://h:81/v1", "/chat?a=b", &[("x-a", "1"), ("x-a", "2")], "hello"),
            "POST /v1/chat?a=b HTTP/1.1\r\nhost: h:81\r\nx-a: 1\r\nx-a: 2\r\n\
             accept-encoding: identity\r\ncontent-length: 5\r\n\r\n"
        );
    }

    #[test]
    fn framing_headers_of_the_caller_are_ignored() {
        let head = encoded(
            "http://h",
            "/",
            &[
                ("host", "evil"),
                ("content-length", "0"),
                ("transfer-encoding", "chunked"),
                ("connection", "x-a"),
                ("accept-encoding", "gzip"),
            ],
            "",
        );
        assert_eq!(head, "POST / HTTP/1.1\r\nhost: h\r\naccept-encoding: gzip\r\ncontent-length: 0\r\n\r\n");
    }

    #[test]
    fn a_path_that_could_end_the_line_is_refused() {
        let target = Target::parse("http://h", Transport::Http1, Duration::from_secs(1)).unwrap();
        for path in ["", "a", "/a b", "/a\r\nx: y", "/a\n", "/\u{e4}", "/\0"] {
            let request = Request {
                method: Method::GET,
                path: path.to_owned(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            assert!(encode(&target, &request).is_err(), "{path:?}");
        }
    }
}
