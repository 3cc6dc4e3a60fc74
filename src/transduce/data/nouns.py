"""The phrasebook's nouns. Each class that "it" can stand for holds nouns of all three genders."""

from __future__ import annotations

from transduce.data.lexicon import Noun, nouns

NOUNS: tuple[Noun, ...] = (
    *nouns(
        "person",
        "m",
        "man/men Mann Männer; father Vater Väter kin; brother Bruder Brüder kin; son Sohn Söhne kin;"
        "boy Junge* Jungen; uncle Onkel Onkel kin; grandfather Großvater Großväter kin; king König Könige; "
        "farmer Bauer* Bauern; neighbour Nachbar* Nachbarn kin; teacher Lehrer Lehrer kin; "
        "doctor Arzt Ärzte kin; baker Bäcker Bäcker; student Student* Studenten; waiter Kellner Kellner; "
        "policeman/policemen Polizist* Polizisten",
    ),
    *nouns(
        "person",
        "f",
        "woman/women Frau Frauen; mother Mutter Mütter kin; sister Schwester Schwestern kin;"
        "daughter Tochter Töchter kin; aunt Tante Tanten kin; grandmother Großmutter Großmütter kin;"
        "queen Königin Königinnen; lady Dame Damen; waitress Kellnerin Kellnerinnen;"
        "actress Schauspielerin Schauspielerinnen; princess Prinzessin Prinzessinnen;"
        "nurse Krankenschwester Krankenschwestern",
    ),
    *nouns("person", "n", "child/children Kind Kinder"),
    *nouns(
        "animal",
        "m",
        "dog Hund Hunde barker; bird Vogel Vögel; fox Fuchs Füchse; donkey Esel Esel; monkey Affe* Affen;"
        "bear Bär* Bären; lion Löwe* Löwen",
    ),
    *nouns(
        "animal",
        "f",
        "cat Katze Katzen; cow Kuh Kühe; goat Ziege Ziegen; duck Ente Enten; mouse/mice Maus Mäuse;"
        "seal Robbe Robben barker; owl Eule Eulen",
    ),
    *nouns(
        "animal",
        "n",
        "horse Pferd Pferde; pig Schwein Schweine; rabbit Kaninchen Kaninchen; calf/calves Kalb Kälber;"
        "lamb Lamm Lämmer; camel Kamel Kamele; animal Tier Tiere barker",
    ),
    *nouns("light", "m", "stove Ofen Öfen burner; fireplace Kamin Kamine burner; grill Grill Grills burner"),
    *nouns("light", "f", "lamp Lampe Lampen; candle Kerze Kerzen burner; torch Fackel Fackeln burner"),
    *nouns("light", "n", "light Licht Lichter; fire Feuer Feuer burner; campfire Lagerfeuer Lagerfeuer burner"),
    *nouns(
        "device",
        "m",
        "computer Computer Computer; television Fernseher Fernseher; printer Drucker Drucker;"
        "alarm_clock Wecker Wecker ringer; refrigerator Kühlschrank Kühlschränke",
    ),
    *nouns(
        "device",
        "f",
        "machine Maschine Maschinen; camera Kamera Kameras; pump Pumpe Pumpen;doorbell Klingel Klingeln ringer",
    ),
    *nouns(
        "device",
        "n",
        "telephone Telefon Telefone ringer; radio Radio Radios; device Gerät Geräte;microscope Mikroskop Mikroskope",
    ),
    *nouns("vehicle", "m", "bus Bus Busse; train Zug Züge; truck Lastwagen Lastwagen; tractor Traktor Traktoren"),
    *nouns(
        "vehicle",
        "f",
        "ferry Fähre Fähren; tram Straßenbahn Straßenbahnen; carriage Kutsche Kutschen;limousine Limousine Limousinen",
    ),
    *nouns("vehicle", "n", "ship Schiff Schiffe; car Auto Autos; taxi Taxi Taxis; boat Boot Boote"),
    *nouns("food", "m", "cake Kuchen Kuchen; apple Apfel Äpfel; salad Salat Salate; cookie Keks Kekse"),
    *nouns("food", "f", "soup Suppe Suppen; pear Birne Birnen; sausage Wurst Würste; pizza Pizza Pizzas"),
    *nouns("food", "n", "egg Ei Eier; sandwich Sandwich Sandwiches; roll Brötchen Brötchen; steak Steak Steaks"),
    *nouns(
        "text",
        "m",
        "letter Brief Briefe; novel Roman Romane; article Artikel Artikel; report Bericht Berichte",
    ),
    *nouns(
        "text",
        "f",
        "newspaper Zeitung Zeitungen; magazine Zeitschrift Zeitschriften; message Nachricht Nachrichten;"
        "story Geschichte Geschichten",
    ),
    *nouns(
        "text",
        "n",
        "book Buch Bücher; poem Gedicht Gedichte; document Dokument Dokumente; diary Tagebuch Tagebücher",
    ),
    *nouns(
        "building",
        "m",
        "tower Turm Türme; station Bahnhof Bahnhöfe; palace Palast Paläste; stable Stall Ställe",
    ),
    *nouns(
        "building",
        "f",
        "church Kirche Kirchen; school Schule Schulen; barn Scheune Scheunen; hut Hütte Hütten",
    ),
    *nouns(
        "building",
        "n",
        "museum Museum Museen; house Haus Häuser; hotel Hotel Hotels; castle Schloss Schlösser",
    ),
    *nouns("clothing", "m", "coat Mantel Mäntel; sweater Pullover Pullover; skirt Rock Röcke; suit Anzug Anzüge"),
    *nouns(
        "clothing",
        "f",
        "jacket Jacke Jacken; blouse Bluse Blusen; vest Weste Westen; uniform Uniform Uniformen",
    ),
    *nouns("clothing", "n", "shirt Hemd Hemden; dress Kleid Kleider; costume Kostüm Kostüme"),
    *nouns(
        "furniture",
        "m",
        "table Tisch Tische; chair Stuhl Stühle; cupboard Schrank Schränke; desk Schreibtisch Schreibtische",
    ),
    *nouns("furniture", "f", "bench Bank Bänke; chest Truhe Truhen; cradle Wiege Wiegen"),
    *nouns("furniture", "n", "bed Bett Betten; sofa Sofa Sofas; shelf/shelves Regal Regale"),
    *nouns("fragile", "m", "plate Teller Teller; flowerpot Blumentopf Blumentöpfe; jug Krug Krüge"),
    *nouns("fragile", "f", "cup Tasse Tassen; bottle Flasche Flaschen; vase Vase Vasen; bowl Schüssel Schüsseln"),
    *nouns("fragile", "n", "glass Glas Gläser; wineglass Weinglas Weingläser; aquarium Aquarium Aquarien"),
    *nouns(
        "cause",
        "m",
        "rain Regen Regen; fog Nebel Nebel; snow Schnee Schnee; wind Wind Winde; noise Lärm Lärm",
    ),
    *nouns("cause", "f", "heat Hitze Hitze; darkness Dunkelheit Dunkelheit; music Musik Musik"),
    *nouns("cause", "n", "weather Wetter Wetter; ice Eis Eis"),
    *nouns("task", "m", "climb Aufstieg Aufstiege; way Weg Wege"),
    *nouns("task", "f", "work Arbeit Arbeiten; journey Reise Reisen; search Suche Suchen; exam Prüfung Prüfungen"),
    *nouns("task", "n", "game Spiel Spiele; training Training Trainings; conversation Gespräch Gespräche"),
    *nouns("room", "m", "garden Garten Gärten; park Park Parks; forest Wald Wälder; cellar Keller Keller"),
    *nouns("room", "f", "kitchen Küche Küchen; city Stadt Städte"),
    *nouns(
        "room",
        "n",
        "village Dorf Dörfer; restaurant Restaurant Restaurants; office Büro Büros",
    ),
)
