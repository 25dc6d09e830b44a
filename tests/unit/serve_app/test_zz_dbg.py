import asyncio, pytest
from tests.unit.serve_app.channel_world import *
import serve_app.channels as ch
def test_x(monkeypatch):
    monkeypatch.setattr("serve_app.channels.READ_AHEAD", 100)
    n=0
    orig=ch.read_news
    async def rn(g,a,c):
        nonlocal n
        n+=1
        r=await orig(g,a,c)
        if n<30: print("news", clock(), c, r and (r.wait.log_length, r.wait.ending and r.wait.ending.seq, [e.seq for e in r.entries], r.counted is None), flush=True)
        return r
    monkeypatch.setattr(ch,"read_news",rn)
    async def story(scene):
        r=scene.read()
        scene.event("order"); scene.callback("last")
        for i in range(2): scene.callback(f"late-{i}",70)
        r2=scene.read()
        await asyncio.wait_for(asyncio.gather(r.task,r2.task),10000)
        print(r.ids,r2.ids)
    play(story)
