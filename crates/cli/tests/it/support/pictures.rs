//! Pictures in `docs/images` of what the program shows on a terminal, made from its output.
//!
//! A test fails if a picture is not what the program shows. With `WIRESEAL_PICTURES=write` in the environment it writes the picture anew
//! instead.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anstyle::{Ansi256Color, AnsiColor, Color, RgbColor, Style};
use anstyle_svg::{Palette, Term, VGA};
use sha2::{Digest, Sha256};

use super::files::crates;

/// The ground and the text of a dark page of `verify --html`, so that pictures look the same wherever they are shown.
const GROUND: RgbColor = RgbColor(0x14, 0x18, 0x1d);
const TEXT: RgbColor = RgbColor(0xd7, 0xdd, 0xe5);

/// The page's colours for what failed, is good, or could not be judged.
const fn palette() -> Palette {
    let mut palette = VGA;
    palette.0[AnsiColor::Red as usize] = RgbColor(0xff, 0x7d, 0x66);
    palette.0[AnsiColor::Green as usize] = RgbColor(0x43, 0xc8, 0xae);
    palette.0[AnsiColor::Yellow as usize] = RgbColor(0xe0, 0xb0, 0x4c);
    palette
}

/// A text with colours as a picture.
pub fn drawing(text: &str) -> String {
    let terminal = Term::new().palette(palette()).min_width_px(0);
    terminal.bg_color(Color::Rgb(GROUND)).fg_color(Color::Rgb(TEXT)).render_svg(text.trim_end())
}

/// What a terminal shows, as text with colours.
pub fn text_of(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let mut text = String::new();
    for row in 0..rows.get() {
        let mut style = Style::new();
        let mut line = String::new();
        for column in 0..columns.get() {
            let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
                continue;
            };
            let colour = match cell.fgcolor() {
                vt100::Color::Default => None,
                vt100::Color::Idx(index) => {
                    Some(Ansi256Color(index).into_ansi().map_or(Ansi256Color(index).into(), Color::Ansi))
                }
                vt100::Color::Rgb(red, green, blue) => Some(RgbColor(red, green, blue).into()),
            };
            let shown = if cell.bold() { Style::new().bold() } else { Style::new() }.fg_color(colour);
            if shown != style {
                line += &format!("{style:#}{shown}");
                style = shown;
            }
            line += if cell.has_contents() { cell.contents() } else { " " };
        }
        text += &format!("{}{style:#}\n", line.trim_end());
    }
    text
}

fn path(name: &str) -> PathBuf {
    crates().join("../docs/images").join(name)
}

/// The name of a text in a PNG file: the digest of what the picture shows.
pub const DIGEST: &str = "SHA-256 of what is shown";

pub fn digest(shown: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(shown))
}

/// The digest in a PNG file, or an empty text.
pub fn digest_in(path: &Path) -> String {
    let reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut texts = reader.info().uncompressed_latin1_text.iter();
    texts.find(|text| text.keyword == DIGEST).map(|text| text.text.clone()).unwrap_or_default()
}

/// Whether pictures are to be written, and not compared.
pub fn are_written() -> bool {
    std::env::var_os("WIRESEAL_PICTURES").is_some_and(|what| what == "write")
}

/// Asserts that a picture in `docs/images` is this one, or writes it.
#[track_caller]
pub fn assert_is_picture(name: &str, drawn: &str) {
    assert!(drawn.len() < 150 << 10, "{name} has {} octets", drawn.len());
    if are_written() {
        fs::write(path(name), drawn).unwrap();
        return;
    }
    let kept = fs::read_to_string(path(name)).unwrap_or_default();
    let differs = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
    assert!(
        kept == drawn,
        "docs/images/{name} is not what the program shows: look at it after WIRESEAL_PICTURES=write has written it anew: {differs:#?}"
    );
}
