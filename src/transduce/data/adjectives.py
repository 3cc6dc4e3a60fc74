"""The phrasebook's adjectives, grouped by what they are said of."""

from __future__ import annotations

from transduce.data.lexicon import THINGS, Adjective, adjectives

ADJECTIVES: tuple[Adjective, ...] = (
    *adjectives(
        "person animal device vehicle text building clothing furniture fragile",
        "old older alt älter",
        vague=THINGS,
    ),
    *adjectives(
        "person animal light device vehicle building clothing furniture fragile food",
        "small smaller klein kleiner",
        vague="text",
    ),
    *adjectives(f"person animal {THINGS}", "strange stranger seltsam seltsamer"),
    *adjectives("person animal building clothing furniture fragile text", "beautiful more schön schöner", vague=THINGS),
    *adjectives(
        "animal device vehicle food building furniture fragile light",
        "big bigger groß größer",
        vague=f"person {THINGS}",
    ),
    *adjectives("animal vehicle building clothing furniture fragile", "white whiter weiß weißer", vague=THINGS),
    *adjectives(
        "device vehicle food clothing furniture fragile",
        "expensive more teuer/teur teurer; cheap cheaper billig billiger",
        vague=f"animal {THINGS}",
    ),
    *adjectives(
        "animal vehicle clothing furniture fragile",
        "dirty dirtier schmutzig schmutziger",
        vague=f"person {THINGS}",
    ),
    *adjectives(
        "device vehicle text building clothing furniture fragile",
        "new newer neu neuer",
        vague=f"animal {THINGS}",
    ),
    *adjectives(
        "building clothing furniture vehicle",
        "ugly uglier hässlich hässlicher",
        vague=f"person animal {THINGS}",
    ),
    *adjectives(
        "person animal",
        "hungry hungrier hungrig hungriger; thirsty thirstier durstig durstiger; tired more müde müder;"
        "young younger jung jünger; clever cleverer klug klüger; brave braver mutig mutiger;"
        "lazy lazier faul fauler; friendly friendlier freundlich freundlicher; sad sadder traurig trauriger",
    ),
    *adjectives("person", "rich richer reich reicher; polite more höflich höflicher"),
    *adjectives("person text building", "famous more berühmt berühmter", vague=f"animal {THINGS}"),
    *adjectives("text", "boring more langweilig langweiliger", vague="person"),
    *adjectives("text", "exciting more spannend spannender; readable more lesbar lesbarer"),
    *adjectives("food", "delicious more lecker leckerer; salty saltier salzig salziger"),
    *adjectives(
        "vehicle animal person",
        "fast faster schnell schneller; slow slower langsam langsamer",
        vague="device",
    ),
    *adjectives("vehicle person", "punctual more pünktlich pünktlicher"),
    *adjectives("vehicle device animal", "loud louder laut lauter", vague="person building light"),
    *adjectives("vehicle device furniture building", "modern more modern moderner", vague="clothing text light"),
    *adjectives("device furniture fragile", "heavy heavier schwer schwerer", vague=f"animal person {THINGS}"),
    *adjectives("device", "practical more praktisch praktischer", vague="vehicle clothing furniture building fragile"),
    *adjectives("building", "spacious more geräumig geräumiger", vague="vehicle furniture"),
    *adjectives("building vehicle fragile", "empty emptier leer leerer", vague="furniture device"),
    *adjectives("furniture clothing", "comfortable more bequem bequemer", vague="vehicle building"),
    *adjectives("clothing", "tight tighter eng enger"),
    *adjectives("clothing person", "elegant more elegant eleganter", vague="furniture vehicle building fragile animal"),
    *adjectives("furniture building", "sturdy sturdier stabil stabiler", vague="animal vehicle device fragile"),
    *adjectives("fragile", "fragile more zerbrechlich zerbrechlicher", vague="device"),
    *adjectives("light food", "hot hotter heiß heißer", vague=f"person animal {THINGS}"),
    *adjectives(
        "task",
        "difficult more schwierig schwieriger; easy easier leicht leichter;"
        "dangerous more gefährlich gefährlicher; important more wichtig wichtiger;"
        "pleasant more angenehm angenehmer",
    ),
)
