//! Pages opened in headless Chromium: the marks are still there after the script ran, nothing is loaded, and screenshots show them.
//!
//! `crates/cli/tests/html-in-chromium` runs it: it needs Chromium, and the feature `chromium` says that there is one.
//! With `WIRESEAL_PICTURES=write` the pictures in `docs/images` are written anew.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, Verdict};

use crate::support::files::{Files, crates, example};
use crate::support::pictures::{DIGEST, are_written, digest, digest_in};
use crate::support::program::{program, wireseal};
use crate::support::reports::{every_verdict, keys, options_excluded, rollover, totals};

const DARK: &str = "--blink-settings=preferredColorScheme=0";
/// CSS pixels across a phone, and a window on a desk.
const PHONE: u32 = 390;
const DESK: u32 = 1240;

fn write_page(path: &Path, connections: &[ConnectionReport]) {
    let keys = keys();
    let subject = Subject { capture: "session.pcapng", keys: &keys };
    let format = Format::Text { colours: false, all: false };
    let mut report = Report::new(Vec::new(), format, subject).unwrap().with_page(path, subject).unwrap();
    for connection in connections {
        report.connection(connection).unwrap();
    }
    report.finish(&totals(connections)).unwrap();
}

/// The only fonts: pictures are the same whichever others a machine has. They are those of Debian's package fonts-dejavu-core.
const FONTS: &str = "/usr/share/fonts/truetype/dejavu";
const FONT_FILES: [&str; 4] =
    ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"];

/// The configuration of fontconfig with only these fonts.
fn fonts(folder: &Path) -> PathBuf {
    let (path, fonts) = (folder.join("fonts.conf"), folder.join("fonts"));
    if !path.exists() {
        fs::create_dir(&fonts).unwrap();
        FONT_FILES.iter().for_each(|name| symlink(Path::new(FONTS).join(name), fonts.join(name)).unwrap());
        let alias = |generic: &str, family: &str| {
            format!("<alias><family>{generic}</family><prefer><family>{family}</family></prefer></alias>")
        };
        let aliases = alias("system-ui", "DejaVu Sans")
            + &alias("sans-serif", "DejaVu Sans")
            + &alias("monospace", "DejaVu Sans Mono");
        let [fonts, cache] = [fonts, folder.join("cache")].map(|path| path.display().to_string());
        fs::write(
            &path,
            format!("<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir>{aliases}</fontconfig>"),
        )
        .unwrap();
    }
    path
}

/// Runs Chromium on a page with these arguments; returns what it prints.
fn chromium(folder: &Path, page: &Path, arguments: &[&str]) -> String {
    let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let output = Command::new(program)
        // Chromium's sandbox does not work as root or in a container, and the page is the test's own.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .env("FONTCONFIG_FILE", fonts(folder))
        .output()
        .expect("Chromium is installed, or CHROMIUM names it");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    // Errors of the page's script and violations of its policy are logged with its address.
    let of_page: Vec<_> = complaints.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(of_page.is_empty(), "{of_page:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// How many pixels the picture has of each colour.
fn colours(path: &Path) -> HashMap<[u8; 3], usize> {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut octets = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut octets).unwrap();
    assert_eq!(info.bit_depth, png::BitDepth::Eight);
    let mut counts = HashMap::new();
    for pixel in octets[..info.buffer_size()].chunks_exact(info.color_type.samples()) {
        *counts.entry([pixel[0], pixel[1], pixel[2]]).or_default() += 1;
    }
    counts
}

/// A colour as the style sheet writes it.
fn colour(text: &str) -> [u8; 3] {
    let number = u32::from_str_radix(text.trim_start_matches('#'), 16).unwrap();
    let [_, red, green, blue] = number.to_be_bytes();
    [red, green, blue]
}

#[test]
fn a_page_shows_a_mark_for_every_segment() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let connections = [rollover(), options_excluded(), every_verdict()];
    write_page(&page, &connections);

    let document = chromium(folder.path(), &page, &["--dump-dom"]);
    let segments: usize = connections.iter().map(|connection| connection.segments.len()).sum();
    assert_eq!(document.matches(r#"<g class="mark""#).count(), segments);
    for place in 0..Verdict::KINDS {
        assert!(document.contains(&format!(r##"href="#mark-{place}""##)), "{place}");
    }
    assert_eq!(document.matches(r#"<g class="change""#).count(), 3);
    // The script has run: it shows the buttons, and takes the titles for its own tooltip.
    assert!(document.contains(r#"<div class="choice" role="group" aria-label="Time axis">"#));
    assert!(!document.contains("verdict: good"));
    // Markup in a diagnosis is shown as text.
    assert!(document.contains("&lt;script&gt;alert("));

    let picture = folder.path().join("page.png");
    let screenshot = format!("--screenshot={}", picture.display());
    chromium(folder.path(), &page, &[&screenshot, "--window-size=1240,2400"]);
    let light = colours(&picture);
    chromium(folder.path(), &page, &[&screenshot, "--window-size=1240,2400", DARK]);
    let dark = colours(&picture);
    // In each colour scheme, the marks of each verdict and the background.
    for (colours, expected) in [
        (&light, ["#0a7d6b", "#c2311d", "#b45f06", "#6d3fc4", "#b0177a", "#8c1d5b", "#64748b", "#f4f6f8"]),
        (&dark, ["#43c8ae", "#ff7d66", "#f0a04b", "#b295f5", "#ee7cc4", "#f094bf", "#94a3b8", "#0f141a"]),
    ] {
        for text in expected {
            let count = colours.get(&colour(text)).copied().unwrap_or(0);
            assert!(count > 30, "{text}: {count} pixels");
        }
    }
}

/// The page's script, driven by another script at the end of a copy of the page.
fn driven(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    write_page(&page, &[rollover(), options_excluded()]);
    let text = fs::read_to_string(&page).unwrap();
    // The page's policy allows only its own script.
    let (start, rest) = text.split_once("script-src ").unwrap();
    let text = format!("{start}script-src 'unsafe-inline'{}", &rest[rest.find('"').unwrap()..]);
    let (before, after) = text.rsplit_once("</body>").unwrap();
    fs::write(&page, format!("{before}<script>{script}</script></body>{after}")).unwrap();
    chromium(folder.path(), &page, &["--dump-dom"])
}

#[test]
fn the_pointer_shows_a_segments_details() {
    let document = driven(
        "document.querySelector('#connection-1 .mark .touch').dispatchEvent(
             new PointerEvent('pointermove', { bubbles: true, clientX: 300, clientY: 300 }))",
    );
    let (_, tip) = document.split_once(r#"<div id="tip""#).unwrap();
    let (tip, _) = tip.split_once("</div>").unwrap();
    assert!(!tip.contains("hidden"), "{tip}");
    for (name, value) in [
        ("packet", "1"),
        ("time", "2026-03-01T12:00:01.001000Z"),
        ("sender", "192.0.2.1:50000"),
        ("flags", "SYN"),
        ("sequence", "268435456"),
        ("payload", "0 octets"),
        ("KeyID", "100"),
        ("RNextKeyID", "100"),
        ("SNE", "0"),
    ] {
        assert!(tip.contains(&format!("<i>{name}</i><b>{value}</b>")), "{name}: {tip}");
    }
    assert!(tip.contains(r#"<b class="first">good</b>"#), "{tip}");
}

#[test]
fn the_axis_can_be_to_scale_and_connections_can_be_chosen() {
    let document = driven(
        "document.querySelector('[data-axis=scale]').click();
         document.querySelector('[data-show=failed]').click();",
    );
    assert_eq!(document.matches(r#"class="timeline to-scale""#).count(), 2);
    // Every mark is at its position to scale.
    for mark in document.split(r#"<g class="mark""#).skip(1) {
        let value =
            |name: &str| mark.split_once(name).unwrap().1.split(['"', ',']).next().unwrap().to_owned();
        assert_eq!(value("translate("), value("data-scale=\""), "{}", &mark[..80]);
    }
    assert!(document.contains(r#"<article class="good" id="connection-1" hidden="">"#));
    assert!(document.contains(r#"<article class="failed" id="connection-2">"#));
    assert!(document.contains(r#"<details class="fold" hidden="">"#));
    let document = driven("document.querySelector('[data-show=good]').click();");
    assert!(document.contains(r#"<details class="fold" open="">"#));
    assert!(document.contains(r#"<article class="good" id="connection-1">"#));
    assert!(document.contains(r#"<article class="failed" id="connection-2" hidden="">"#));
}

/// A page in a frame of this width: narrower than the narrowest window that Chromium makes. The frame's width and that of its content
/// become the title.
fn framed(folder: &Path, page: &Path, width: u32) -> PathBuf {
    let page = fs::read_to_string(page).unwrap().replace('&', "&amp;").replace('"', "&quot;");
    let path = folder.join("framed.html");
    let script = "onload = () => {
        const page = document.querySelector('iframe').contentDocument.documentElement;
        document.title = page.clientWidth + ' ' + page.scrollWidth;
    }";
    let frame = format!("width:{width}px;height:4000px;border:0;display:block");
    fs::write(
        &path,
        format!(
            "<!DOCTYPE html><style>:root{{color-scheme:light dark}}body{{margin:0}}</style><script>{script}</script>\
             <iframe style=\"{frame}\" srcdoc=\"{page}\"></iframe>"
        ),
    )
    .unwrap();
    path
}

#[test]
fn pages_fit_a_phone_and_a_desk() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let few = vec![rollover(), options_excluded(), every_verdict()];
    let many: Vec<_> = (0..10).flat_map(|_| few.clone()).collect();
    for connections in [few, many] {
        write_page(&page, &connections);
        for width in [PHONE, DESK] {
            let document = chromium(folder.path(), &framed(folder.path(), &page, width), &["--dump-dom"]);
            let fits = format!("<title>{width} {width}</title>");
            assert!(document.contains(&fits), "{fits}: {}", &document[..document.find("<iframe").unwrap()]);
        }
    }
}

/// Writes the upper `height` rows of a picture, compressed well, with the digest of the page that it shows.
fn write_cropped(from: &Path, to: &Path, height: usize, digest: &str) {
    let mut reader = png::Decoder::new(BufReader::new(File::open(from).unwrap())).read_info().unwrap();
    let mut octets = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut octets).unwrap();
    let mut encoder = png::Encoder::new(File::create(to).unwrap(), info.width, height as u32);
    encoder.set_color(info.color_type);
    encoder.set_compression(png::Compression::High);
    encoder.add_text_chunk(DIGEST.to_owned(), digest.to_owned()).unwrap();
    let rows = &octets[..info.line_size * height];
    encoder.write_header().unwrap().write_image_data(rows).unwrap();
}

/// Asserts that a picture in `docs/images` is of this page and looks like this one, or writes it. The digest finds what no eye would;
/// pixels may differ a little, as they do between two versions of Chromium.
#[track_caller]
fn assert_is_screenshot(name: &str, page: &Path, shot: &Path, height: usize) {
    let digest = digest(&fs::read(page).unwrap());
    let kept = crates().join("../docs/images").join(name);
    if are_written() {
        write_cropped(shot, &kept, height, &digest);
        assert!(fs::metadata(&kept).unwrap().len() < 150 << 10, "{name}");
        return;
    }
    let decode = |path: &Path| {
        let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
        let mut octets = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut octets).unwrap();
        octets.truncate(info.line_size * height);
        (info.width, info.color_type, octets)
    };
    let remedy = "look at it after WIRESEAL_PICTURES=write has written it anew";
    assert!(digest_in(&kept) == digest, "docs/images/{name} shows another page: {remedy}");
    let ((kept_width, kept_type, kept), (width, kind, octets)) = (decode(&kept), decode(shot));
    assert_eq!(
        (kept_width, kept_type, kept.len()),
        (width, kind, octets.len()),
        "docs/images/{name}: {remedy}"
    );
    let differing = kept.iter().zip(&octets).filter(|(kept, octet)| kept.abs_diff(**octet) > 64).count();
    assert!(
        differing <= octets.len() / 50,
        "docs/images/{name} looks otherwise, by {differing} octets: {remedy}"
    );
}

/// The pictures in `docs/images` of the page about `docs/example/down.pcap`.
#[test]
fn the_page_looks_as_the_documents_show_it() {
    let files = example();
    let folder = files.path("");
    let mut command = program();
    command.args(["verify", "down.pcap", "--keys", "keys.toml", "--html", "page.html"]);
    assert_eq!(command.current_dir(&folder).output().unwrap().status.code(), Some(1));
    let page = files.path("page.html");
    let phone = framed(&folder, &page, PHONE);
    let (light, dark) = (["#c2311d", "#f4f6f8"], ["#ff7d66", "#0f141a"]);
    for (name, page, width, height, scheme, expected) in [
        ("verify.png", &page, 1100, 610, None, light),
        ("verify-dark.png", &page, 1100, 610, Some(DARK), dark),
        ("verify-phone.png", &phone, PHONE, 1060, None, light),
        ("verify-phone-dark.png", &phone, PHONE, 1060, Some(DARK), dark),
    ] {
        let shot = files.path(name);
        // A window has less room for the page than its size.
        let size = format!("--window-size={width},{}", height + 200);
        let screenshot = format!("--screenshot={}", shot.display());
        let arguments: Vec<_> = [screenshot.as_str(), &size].into_iter().chain(scheme).collect();
        chromium(&folder, page, &arguments);
        let colours = colours(&shot);
        for text in expected {
            let count = colours.get(&colour(text)).copied().unwrap_or(0);
            assert!(count > 100, "{name}: {text}: {count} pixels");
        }
        assert_is_screenshot(name, page, &shot, height);
    }
}

/// The pictures of a terminal, as a reader's browser shows them: what failed stands out, on a ground of its own.
#[test]
fn pictures_of_a_terminal_have_their_ground_and_colours() {
    let folder = tempfile::tempdir().unwrap();
    let shot = folder.path().join("shot.png");
    let screenshot = format!("--screenshot={}", shot.display());
    for name in ["report.svg", "report-many.svg", "live.svg"] {
        let picture = crates().join("../docs/images").join(name);
        chromium(folder.path(), &picture, &[&screenshot, "--window-size=860,400"]);
        let colours = colours(&shot);
        let of = |text| colours.get(&colour(text)).copied().unwrap_or(0);
        assert!(
            of("#ff7d66") > 100 && of("#14181d") > 200_000,
            "{name}: {} {}",
            of("#ff7d66"),
            of("#14181d")
        );
    }
}

#[test]
fn the_page_of_keys_diff_shows_a_bar_for_every_use_of_a_key() {
    let files = Files::new();
    let key = |send: u8, recv: u8, until: &str| {
        format!(
            "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \
             \"AES-128-CMAC-96\"\nsecret = \"the secret of both ends\"\nsend = {{ until = {until} }}\n"
        )
    };
    let one = files.file("edge-a.toml", key(1, 2, "2026-07-01T00:00:00Z"));
    let other = files.file("edge-b.toml", key(2, 1, "2026-08-01T00:00:00Z"));
    let page = files.path("diff.html");
    let [one, other, html] = [&one, &other, &page].map(|path| path.to_str().unwrap());
    let run = wireseal(["keys", "diff", one, other, "--now", "2026-06-01T00:00:00Z", "--html", html]);
    assert_eq!(run.code, 1, "{}", run.err);
    // Its policy allows everything that the page needs, or Chromium would complain.
    let document = chromium(files.path("").as_path(), &page, &["--dump-dom"]);
    assert_eq!(document.matches(r#"<rect class="whole""#).count(), 3, "two keys, and the legend");
    assert!(document.matches(r#"<rect class="fails""#).count() == 2 && document.contains("fails</span>"));
    let picture = files.path("diff.png");
    chromium(
        files.path("").as_path(),
        &page,
        &[&format!("--screenshot={}", picture.display()), "--window-size=1240,1400"],
    );
    let colours = colours(&picture);
    for text in ["#0a7d6b", "#c2311d", "#f4f6f8"] {
        let count = colours.get(&colour(text)).copied().unwrap_or(0);
        assert!(count > 300, "{text}: {count} pixels");
    }
}
