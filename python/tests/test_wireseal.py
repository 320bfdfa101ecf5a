"""The wheel against RFC 9235, a capture of two BIRDs, and the converter's own formats: `python3 -m unittest discover python/tests`."""

import json
import unittest
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from wireseal import Algorithm, Direction, Error, Key, Status, append_ao, convert, sign, traffic_key, verify
from wireseal.scapy import signed, verified

DATA = Path(__file__).resolve().parents[2] / "crates/tcp-ao/tests/data"
ALGORITHMS = {"HMAC-SHA-1-96": Algorithm.HMAC_SHA1, "AES-128-CMAC-96": Algorithm.AES128_CMAC}


class Rfc9235(unittest.TestCase):
    def test_each_packet_is_derived_signed_and_verified(self):
        vectors = json.loads((DATA / "vectors/rfc9235.json").read_text())["vectors"]
        self.assertEqual(len(vectors), 32)
        for vector in vectors:
            with self.subTest(vector["section"]):
                octets = bytes.fromhex(vector["packet"])
                packet = IP(octets) if octets[0] >> 4 == 4 else IPv6(octets)
                segment = octets[40 if packet.version == 6 else 20 :]
                ids = next(value for name, value in packet[TCP].options if name == "AO")
                key = Key(
                    ids.keyid,
                    ids.keyid,
                    bytes.fromhex(vector["master_key"]),
                    ALGORITHMS[vector["algorithm"]],
                    options_excluded=vector["options"] == "not covered",
                )
                isns = int(vector["source_isn"], 16), int(vector["destination_isn"], 16)
                direction = Direction(packet.src, packet[TCP].sport, packet.dst, packet[TCP].dport, *isns)
                self.assertEqual(traffic_key(key, direction).hex(), vector["traffic_key"])
                self.assertEqual(verify([key], direction, segment, vector["sne"]), key)
                blank = segment.replace(bytes.fromhex(vector["mac"]), bytes(12))
                self.assertEqual(sign(key, direction, blank, ids.rnextkeyid, vector["sne"]), segment)

    def test_an_option_is_appended_behind_the_others(self):
        key = Key(1, 2, b"first-secret")
        syn = bytes(12) + bytes([6 << 4, 2]) + bytes(6) + bytes([2, 4, 5, 180]) + b"data"
        appended = append_ao(key, syn)
        self.assertEqual(appended, syn[:12] + bytes([10 << 4]) + syn[13:24] + bytes([29, 16]) + bytes(14) + b"data")
        for segment, status in (
            (b"", Status.MALFORMED),
            (syn[:23], Status.MALFORMED),
            (bytes(20), Status.MALFORMED),
            (syn[:12] + bytes([15 << 4]) + bytes(47), Status.NO_ROOM),
        ):
            with self.assertRaises(Error) as refused:
                append_ao(key, segment)
            self.assertEqual(refused.exception.status, status)


class Scapy(unittest.TestCase):
    def test_a_capture_verifies_and_is_signed_anew(self):
        key = Key(100, 100, b"first-secret", Algorithm.AES128_CMAC)
        isns = {}
        packets = [packet[Ether] for packet in rdpcap(str(DATA / "captures/bird-ipv4-cmac.pcap")) if TCP in packet]
        for packet in packets:
            tcp = packet[TCP]
            if tcp.flags.S:
                isns[tcp.sport, tcp.dport] = tcp.seq
            source, destination = isns[tcp.sport, tcp.dport], isns.get((tcp.dport, tcp.sport), 0)
            self.assertEqual(verified(packet, [key], source, destination), key)
            bare = packet.copy()
            bare[TCP].options = [option for option in tcp.options if option[0] != "AO"]
            again = signed(bare, key, source, destination)
            self.assertEqual(verified(again, [key], source, destination), key)
            again[TCP].payload = TCP(dport=1)
            with self.assertRaises(Error) as refused:
                verified(again, [key], source, destination)
            self.assertEqual(refused.exception.status, Status.BAD_MAC)
        self.assertGreater(len(packets), 10)


class Keys(unittest.TestCase):
    TOML = '[[key-chain]]\nname = "core"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = "AES-128-CMAC-96"\nsecret = "first-secret"\n'

    def test_a_chain_is_converted_and_back(self):
        json_, lost = convert(self.TOML, "json", name="keys.toml")
        self.assertEqual((json.loads(json_)["ietf-key-chain:key-chains"]["key-chain"][0]["name"], lost), ("core", []))
        bird, _ = convert(json_, "bird", source="json")
        self.assertIn("first-secret", bird)

    def test_a_mistake_is_told_without_the_secret(self):
        with self.assertRaises(Error) as refused:
            convert(self.TOML.replace("100", "1000"), "json", name="keys.toml")
        self.assertEqual(refused.exception.status, Status.KEYS)
        self.assertIn("keys.toml", str(refused.exception))
        self.assertNotIn("first-secret", str(refused.exception))
        self.assertNotIn("first-secret", repr(Key(1, 2, b"first-secret")))

    def test_what_is_no_key_is_refused(self):
        direction = Direction("192.0.2.1", 179, "192.0.2.2", 50000, 1, 2)
        for key, status in (Key(1, 1, b""), Status.MASTER_KEY_LENGTH), (Key(1, 1, b"x", mac_length=3), Status.MAC_LENGTH):
            with self.assertRaises(Error) as refused:
                traffic_key(key, direction)
            self.assertEqual(refused.exception.status, status)
        with self.assertRaisesRegex(TypeError, "octets, not text"):
            Key(1, 1, "first-secret")


if __name__ == "__main__":
    unittest.main()
