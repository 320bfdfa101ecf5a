//! probe
use std::hint::black_box; use std::time::Instant;
use wireseal_benches::*; use wireseal_algorithms::*; use wireseal_tcp_ao::*;
fn time(name:&str, mut f: impl FnMut()){ let mut best=f64::MAX; for _ in 0..2000 { let s=Instant::now(); for _ in 0..500 {f()} best=best.min(s.elapsed().as_nanos() as f64/500.0);} println!("{name}: {best:.1}"); }
fn main(){
 let pair=pair(); let (s,d)=(pair.local.address(), pair.remote.address());
 let mut e=established(TcpAoAlgorithm::Aes128Cmac,128); let signed=e.tcp.clone();
 time("from_tcp", ||{black_box(Segment::from_tcp(s,d,black_box(&signed)).unwrap());});
 let seg=Segment::from_tcp(s,d,&signed).unwrap();
 time("find", ||{black_box(black_box(&seg).ao_option().unwrap());});
 time("endpoints", ||{black_box(black_box(&seg).source()==pair.local && seg.destination()==pair.remote);});
 let mk=MasterKey::new(&[1;32]).unwrap();
 let key=TrafficKey::derive(TcpAoAlgorithm::Aes128Cmac,&mk,&KdfContext::send_other(pair,Isn(1000),Isn(5000)));
 let ao=seg.ao_option().unwrap().unwrap();
 let p=*e.sender.current_key();
 let pre=vec![7u8;52];
 time("bare", ||{black_box(key.mac_key().mac(&[black_box(&pre), black_box(&signed[36..])]));});
 time("segment_mac", ||{black_box(segment_mac(&key,Sne(0),black_box(&seg),&ao,p.options));});
 time("verify_segment", ||{black_box(verify_segment(&key,Sne(0),black_box(&seg),&ao,&p)).unwrap();});
 time("mac verify", ||{black_box(key.mac_key().verify(&[black_box(&pre), black_box(&signed[36..])],ao.mac)).is_ok();});
 let mut t=vec![signed.clone();64]; let mut i=0;
 if std::env::args().nth(1).is_some() { for _ in 0..20_000_000u32 { i=(i+1)%64; sign_segment(&key,Sne(0),(s,d),black_box(&mut t[i]),&p,KeyId(1)).unwrap(); } return; }
 time("sign_segment", ||{i=(i+1)%64; sign_segment(&key,Sne(0),(s,d),black_box(&mut t[i]),&p,KeyId(1)).unwrap();});
 time("sign", ||{i=(i+1)%64; e.sender.sign(black_box(&mut t[i])).unwrap();});
 time("verify", ||{e.receiver.verify(black_box(&seg)).unwrap();});
}
