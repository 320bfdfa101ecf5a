//! A file of any length in chunks of 64 KiB, by the STREAM construction (Hoang, Reyhanitabar, Rogaway and Vizár, 2015): each chunk's
//! nonce holds its number, and says whether it is the last. So a file that was truncated, or whose chunks were moved, is refused.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

use wireseal_aead::aead::{Generate, array::Array, consts::U7};
use wireseal_aead::{AeadAlgorithm, AeadKey, ChaCha20Poly1305, Key};

const TAG: usize = AeadAlgorithm::TAG_LENGTH;
const CHUNK: usize = 64 << 10;

/// Calls `with` with each chunk of `size` octets and its nonce: 7 octets of the file's own, the number in 4, and 1 for the last chunk.
fn each_chunk<F>(input: impl Read, size: usize, file: [u8; 7], mut with: F) -> io::Result<()>
where
    F: FnMut(&[u8; 12], Vec<u8>) -> io::Result<()>,
{
    let mut input = BufReader::new(input);
    for number in 0..=u32::MAX {
        let mut chunk = Vec::with_capacity(CHUNK + TAG);
        input.by_ref().take(size as u64).read_to_end(&mut chunk)?;
        let is_last = input.fill_buf()?.is_empty();
        let nonce = [&file[..], &number.to_be_bytes(), &[u8::from(is_last)]].concat();
        with(nonce[..].try_into().expect("12 octets"), chunk)?;
        if is_last {
            return Ok(());
        }
    }
    Err(ErrorKind::FileTooLarge.into())
}

fn seal(key: &AeadKey, input: impl Read, mut output: impl Write) -> io::Result<()> {
    // At random, so that files under one key have different nonces: of 2^12, two have the same with a probability of 2^-33. For more, derive
    // a key for each file, as age does.
    let file: [u8; 7] = Array::<u8, U7>::generate().into();
    output.write_all(&file)?;
    each_chunk(input, CHUNK, file, |nonce, mut chunk| {
        chunk.resize(chunk.len() + TAG, 0);
        key.seal(nonce, b"", &mut chunk).map_err(io::Error::other)?;
        output.write_all(&chunk)
    })
}

/// After an error, the output is authentic but incomplete: remove it.
fn open(key: &AeadKey, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut file = [0; 7];
    input.read_exact(&mut file)?;
    each_chunk(input, CHUNK + TAG, file, |nonce, mut chunk| {
        let text = key.open(nonce, b"", &mut chunk);
        output.write_all(text.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?)
    })
}

fn main() -> io::Result<()> {
    // With AES-GCM, one key would be used up after 512 GiB.
    let key = Key::<ChaCha20Poly1305>::generate();
    let key = AeadKey::new(AeadAlgorithm::ChaCha20Poly1305, &key).expect("32 octets");
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
        let (text, mut sealed, mut opened) = (vec![5; length], Vec::new(), Vec::new());
        seal(&key, &text[..], &mut sealed)?;
        open(&key, &sealed[..], &mut opened)?;
        assert!(opened == text, "{length} octets");
        let (file, chunks) = sealed.split_at(7);
        // Without its end, without its start, the two exchanged, and with more behind it.
        for cut in [0, 1, CHUNK + TAG, chunks.len() - 1].into_iter().filter(|cut| *cut < chunks.len()) {
            let (start, end) = chunks.split_at(cut);
            for damaged in [&[start][..], &[end], &[end, start], &[chunks, end]] {
                if damaged.concat() == chunks {
                    continue;
                }
                let damaged = [file, &damaged.concat()].concat();
                let error = open(&key, &damaged[..], io::sink()).expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::InvalidData);
            }
        }
    }
    println!(
        "files of up to three chunks sealed and opened; the same cut off, extended or in another order refused"
    );
    Ok(())
}
