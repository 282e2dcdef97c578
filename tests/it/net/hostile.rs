//! Answers of arbitrary bytes, in arbitrary pieces, over real sockets.

use std::time::Duration;

use proptest::prelude::*;
use tokio::{io::AsyncWriteExt, runtime::Builder, time::timeout};
use tollway::net::NetError;

use crate::net::{PATIENCE, Server, client, post};

/// Sends, while the server plays the pieces and closes; the body and how the call ended.
fn play(pieces: &[Vec<u8>]) -> (Vec<u8>, Option<NetError>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind().await;
        let client = client();
        let (target, request) = (server.target(), post("{}"));
        let call = async {
            let mut read = Vec::new();
            let mut body = match client.send(&target, &request).await {
                Ok(answer) => answer.body,
                Err(error) => return (read, Some(error)),
            };
            while let Some(piece) = body.chunk().await {
                match piece {
                    Ok(piece) => read.extend_from_slice(&piece),
                    Err(error) => return (read, Some(error)),
                }
            }
            (read, None)
        };
        let serve = async {
            let mut peer = server.accept().await;
            peer.request().await;
            for piece in pieces {
                // The client may have had enough.
                if peer.stream.write_all(piece).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        timeout(PATIENCE, async { tokio::join!(call, serve).0 }).await.expect("no hang")
    })
}

fn split(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn arbitrary_bytes_neither_hang_nor_panic(
        lead in prop::sample::select(&[
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 100 C\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
        ][..]),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let answer = [lead.as_bytes(), &bytes].concat();
        let (read, _) = play(&split(&answer, &cuts));
        prop_assert!(lead.contains("gzip") || read.len() <= bytes.len());
    }

    #[test]
    fn any_split_of_a_valid_answer_gives_the_same_body(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6),
        framing in 0..3,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = chunks.concat();
        let mut answer = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n".to_vec();
        match framing {
            0 => {
                answer.extend(b"transfer-encoding: chunked\r\n\r\n");
                for chunk in &chunks {
                    answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    answer.extend(chunk);
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n\r\n");
            }
            1 => {
                answer.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
                answer.extend(&body);
            }
            _ => {
                answer.extend(b"\r\n");
                answer.extend(&body);
            }
        }
        let (read, error) = play(&split(&answer, &cuts));
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(read, body);
    }
}
