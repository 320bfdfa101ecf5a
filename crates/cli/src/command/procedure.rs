//! The procedure of a plan for a new key, for people: what to do at which end, when, and how to see that it worked.

use std::fmt::Write;

use wireseal_keys::{Action, Format, Plan, PlannedEnd, Step};

/// The file with the change of a step, without its folder.
pub(super) fn file_of(end: &PlannedEnd, step: &Step, is_whole: bool) -> String {
    let extension = match end.format.as_str() {
        _ if !is_whole => "txt",
        format @ ("toml" | "json") => format,
        _ => "conf",
    };
    format!("{}-{}-{}.{extension}", number(step.action), end.name, step.action.name())
}

const fn number(action: Action) -> u8 {
    match action {
        Action::Add => 1,
        Action::Prefer => 2,
        Action::Remove => 3,
    }
}

/// The procedure, without secrets. `files` are the names of each end's files, one for each step; `plan_file` is that of the plan.
pub(super) fn procedure(
    plan: &Plan,
    formats: [Format; 2],
    files: &[Vec<String>; 2],
    plan_file: &str,
) -> String {
    let mut text = String::new();
    write(&mut text, plan, formats, files, plan_file).expect("a String takes every write");
    text
}

fn write(
    text: &mut String,
    plan: &Plan,
    formats: [Format; 2],
    files: &[Vec<String>; 2],
    plan_file: &str,
) -> std::fmt::Result {
    let [one, other] = &plan.ends;
    writeln!(text, "A new key for {} and {} at {}\n", one.name, other.name, plan.at)?;
    for (end, format) in plan.ends.iter().zip(formats) {
        let old: Vec<_> =
            end.old.iter().map(|key| format!("{} (SendID {})", key.key_id, key.send_id)).collect();
        let new = end.new;
        writeln!(
            text,
            "{} ({format}, chain {:?}): key {} with SendID {} and RecvID {} comes, key {} goes.",
            end.name,
            end.chain,
            new.key_id,
            new.send_id,
            new.recv_id,
            old.join(", ")
        )?;
    }
    writeln!(
        text,
        "\nNo segment is lost while the clocks differ by at most {} seconds and each step is taken in its time,\nat either end first. This \
         was proved for the files of {}; to prove it again:\n    wireseal keys roll --check {plan_file} {} {}\n\nThe files with changes are beside this one. They have the new secret: copy each to its \
         end only, and remove them at last.",
        plan.skew_seconds, plan.made, one.file, other.file
    )?;
    for (end, _) in plan.ends.iter().zip(formats).filter(|(_, format)| format.is_changed_by_commands()) {
        writeln!(
            text,
            "The commands for {} are as its guides have them, not seen on a device: try them on one without traffic first.",
            end.name
        )?;
    }
    for warning in of_other_neighbors(plan) {
        writeln!(text, "\nNote: {warning}")?;
    }
    let headings = [
        (Action::Add, "Accept the new key at both ends"),
        (Action::Prefer, "Change over"),
        (Action::Remove, "Remove the old key, once the new one is in use at both ends"),
    ];
    for (action, heading) in headings {
        writeln!(text, "\n{}. {heading}\n", number(action))?;
        for (index, (end, format)) in plan.ends.iter().zip(formats).enumerate() {
            let step = end.steps.iter().position(|step| step.action == action);
            let Some(place) = step else {
                // The lifetime decides, whatever an edited plan has as the moment of the change.
                let at = end.new.send.from.unwrap_or(plan.at);
                writeln!(text, "{}: by itself at {at}, by its own clock.", end.name)?;
                continue;
            };
            let step = &end.steps[place];
            match step.until {
                Some(until) => writeln!(text, "{}: from {} on and before {until}:", end.name, step.from)?,
                None => writeln!(text, "{}: from {} on:", end.name, step.from)?,
            }
            let file = files[index].get(place).map_or("", String::as_str);
            write_commands(
                text,
                &format.apply_commands().replace("{file}", file).replace("{target}", &end.file),
            )?;
        }
        let expected = match action {
            Action::Add => "both keys are there, and the old one is in use",
            Action::Prefer => "the new key is in use",
            Action::Remove => "the new key alone is there",
        };
        writeln!(text, "\nCheck that {expected}:\n")?;
        for (end, format) in plan.ends.iter().zip(formats) {
            writeln!(text, "{}:", end.name)?;
            write_commands(text, &format.show_commands().replace("{chain}", &end.chain))?;
        }
        if action == Action::Prefer {
            writeln!(
                text,
                "\nWhere an end is wireseal run or gateway, this waits until the old key may go (exit code 0):"
            )?;
            write_commands(text, &format!("wireseal keys roll --status {plan_file} --wait"))?;
            writeln!(text, "Elsewhere, this looks at a capture of the session (exit code 1: not yet):")?;
            let capture =
                format!("wireseal keys roll --status {plan_file} --capture session.pcap --keys KEYS");
            write_commands(text, &capture)?;
        }
    }
    Ok(())
}

/// What the proof does not cover: the other neighbors that use a chain of the plan.
pub(super) fn of_other_neighbors(plan: &Plan) -> Vec<String> {
    let several = plan.ends.iter().zip(plan.ends.iter().rev()).filter(|(end, _)| end.neighbors.len() > 1);
    let sentences = several.map(|(end, peer)| {
        format!(
            "chain {:?} of {} has {} neighbors ({}). The plan is for {} alone: each other one needs the new key in step 1, too",
            end.chain,
            end.name,
            end.neighbors.len(),
            end.neighbors.join(", "),
            peer.name
        )
    });
    sentences.collect()
}

fn write_commands(text: &mut String, commands: &str) -> std::fmt::Result {
    commands.lines().try_for_each(|command| writeln!(text, "    {command}"))
}
