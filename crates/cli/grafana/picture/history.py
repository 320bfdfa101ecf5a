"""Six hours of two gateways as OpenMetrics, for the picture of the dashboard: python3 history.py END, in seconds since 1970.

A peer gets another secret and loses its session until it is set right, one is slow to follow to a new key, and a gateway is restarted.
"""

import math
import sys

END = int(sys.argv[1])
START, STEP, HOUR, DAY = END - 6 * 3600, 30, 3600, 86400
VERDICTS = ("good", "bad MAC", "unknown KeyID", "no TCP-AO option")
# Of each peer: its instance, how many good segments a second, and the days until its key and its chain end.
PEERS = {
    "192.0.2.2": ("edge-1:9417", 4.2, 5, 95),
    "2001:db8::2": ("edge-1:9417", 2.6, 30, 60),
    "198.51.100.9": ("edge-2:9417", 1.4, 12, 12),
    "203.0.113.0/24": ("edge-2:9417", 6.5, None, None),
}
RESTART = {"edge-1:9417": -9 * DAY, "edge-2:9417": int(4.5 * HOUR)}


def at(seconds):
    """The samples of a moment, so many seconds after the start, by family."""
    samples = {}

    def sample(name, value, **labels):
        samples.setdefault(name, []).append((labels, value))

    for instance, restart in RESTART.items():
        sample("info", 1, instance=instance, command="gateway", version="0.1.0")
        sample("rules_in_place", 1, instance=instance)
        sample("start_timestamp_seconds", START + (restart if seconds >= restart else -9 * DAY), instance=instance)
    for peer, (instance, rate, key_days, chain_days) in PEERS.items():
        labels = {"instance": instance, "peer": peer}
        is_wrong = peer == "198.51.100.9" and 1.5 * HOUR <= seconds < 2.25 * HOUR
        sessions = 6 if peer.endswith("/24") else 1
        if peer.endswith("/24") and seconds >= 3.5 * HOUR:
            sessions = 7
        has_rolled = peer == "2001:db8::2" and seconds >= 4 * HOUR
        sample("sessions", 0 if is_wrong else sessions, **labels)
        sample("sessions_on_old_key", int(has_rolled and seconds < 4.4 * HOUR), **labels)
        since = RESTART[instance] if seconds >= RESTART[instance] else -9 * DAY
        lost = min(max(seconds - 1.5 * HOUR, 0), 0.75 * HOUR) if peer == "198.51.100.9" and since < 0 else 0
        # Keepalives, and waves of updates.
        open_for = seconds - since - lost
        good = rate * (open_for + 100 * (math.sin(open_for / 700 + rate) - math.sin(rate)))
        counts = dict.fromkeys(VERDICTS, 0) | {"good": good, "bad MAC": lost * 0.4}
        if peer == "192.0.2.2" and seconds > 5 * HOUR:
            counts["no TCP-AO option"] = min(seconds - 5 * HOUR, 600) * 0.15
        for verdict, count in counts.items():
            sample("segments", int(count), **labels, verdict=verdict)
        key = {"send_id": "2" if has_rolled else "1", "recv_id": "2" if has_rolled else "1", "algorithm": "AES-128-CMAC-96"}
        sample("key_start_timestamp_seconds", START + (4 * HOUR if has_rolled else -9 * DAY), **labels, **key)
        if key_days is not None:
            sample("key_end_timestamp_seconds", END + key_days * DAY, **labels)
            sample("key_chain_end_timestamp_seconds", END + chain_days * DAY, **labels)
    for instance in RESTART:
        for verdict in VERDICTS:
            sample("listener_segments", 0, instance=instance, verdict=verdict)
    return samples


families = {}
for now in range(START - 600, END + 1, STEP):
    for name, samples in at(now - START).items():
        series = families.setdefault(name, {})
        for labels, value in samples:
            series.setdefault(tuple(sorted((labels | {"job": "wireseal"}).items())), []).append((value, now))
for name, series in families.items():
    is_counter = name.endswith("segments")
    print(f"# TYPE wireseal_{name} {'counter' if is_counter else 'gauge'}")
    for labels, values in series.items():
        text = ",".join(f'{label}="{value}"' for label, value in labels)
        for value, now in values:
            print(f"wireseal_{name}{'_total' if is_counter else ''}{{{text}}} {value} {now}")
print("# EOF")
