"""Statements that somebody rejected, what says the same again, and what only sounds like it. Written by hand.

Each row is a statement, two to three wordings that must not be learnt once it is rejected, and two to
three others that say something else and must still be learnt: another name, number, person, time or
attitude, or another thing about the same subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """One statement with what is and what is not the same.

    Attributes:
        statement: What was rejected.
        again: Wordings that say the same.
        other: Statements that say something else.
    """

    statement: str
    again: tuple[str, ...]
    other: tuple[str, ...]


def _cases(text: str) -> tuple[Case, ...]:
    cases: list[Case] = []
    for paragraph in text.strip().split("\n\n"):
        statement, *lines = (line.strip() for line in paragraph.splitlines())
        again = tuple(line.removeprefix("= ") for line in lines if line.startswith("= "))
        other = tuple(line.removeprefix("# ") for line in lines if line.startswith("# "))
        cases.append(Case(statement, again, other))
    return tuple(cases)


KNOWN: Final = _cases(
    """
    I moved to Berlin.
    = I've moved to Berlin
    = I just moved to Berlin recently.
    = The user moved to Berlin
    # I moved to Bern.
    # I moved from Berlin to Porto.
    # My sister moved to Berlin.

    I live in Lisbon.
    = I'm living in Lisbon
    = I currently live in Lisbon
    = User lives in Lisbon
    # I live in Lucerne.
    # I don't live in Lisbon any more.
    # I lived in Lisbon for two years as a child.

    My salary is 84,000 euros.
    = I earn 84,000 euros
    = User's salary is 84,000 euros
    # My salary is 48,000 euros.
    # My rent is 840 euros.
    # My salary is paid on the 25th.

    I am pregnant.
    = I'm pregnant
    = The user is pregnant
    # I am not pregnant.
    # My sister is pregnant.
    # I am a midwife.

    I owe Bob 200 dollars.
    = I owe 200 dollars to Bob
    = The user owes Bob 200 dollars
    # Bob owes me 200 dollars.
    # I owe Bob 20 dollars.
    # I owe Rob 200 dollars.

    I have been diagnosed with diabetes.
    = I was diagnosed with diabetes
    = User has been diagnosed with diabetes
    # I have been diagnosed with asthma.
    # My father has been diagnosed with diabetes.
    # I was tested for diabetes and I don't have it.

    I voted for the Greens.
    = I voted Greens
    = User voted for the Greens
    # I voted for the Liberals.
    # I didn't vote for the Greens.

    I hate my boss.
    = I really hate my boss
    = The user hates their boss
    # I like my boss.
    # My boss hates meetings.
    # I hate my commute.

    My daughter's name is Emma.
    = My daughter is called Emma
    = The user's daughter is named Emma
    # My daughter's name is Emily.
    # My dog's name is Emma.
    # My daughter's teacher is called Emma.

    I take antidepressants.
    = I'm taking antidepressants
    = User takes antidepressants
    # I take vitamins.
    # I stopped taking antidepressants.
    # My brother takes antidepressants.

    We deploy with ArgoCD on the prod-west cluster.
    = We use ArgoCD to deploy to prod-west
    = User's team deploys with ArgoCD on the prod-west cluster
    # We deploy with ArgoCD on the prod-east cluster.
    # We deploy with Flux on the prod-west cluster.
    # We don't deploy with ArgoCD on prod-west.

    My favourite colour is red.
    = My favorite color is red
    = Red is my favourite colour
    = The user's favourite colour is red
    # My favourite colour is blue.
    # My car is red.
    # My favourite wine is red.

    I am allergic to peanuts.
    = I'm allergic to peanuts
    = I have a peanut allergy
    = The user is allergic to peanuts
    # I am allergic to penicillin.
    # I'm not allergic to peanuts.
    # My son is allergic to peanuts.

    I am 34 years old.
    = I'm 34
    = The user is 34 years old
    # I am 43 years old.
    # My wife is 34 years old.

    I work at Acme.
    = I'm working at Acme
    = I work for Acme
    = The user works at Acme
    # I work at Ajax.
    # I used to work at Acme.
    # I work with Acme's lawyers.

    I quit smoking.
    = I've quit smoking
    = The user quit smoking
    # I started smoking.
    # I quit my job.
    # My husband quit smoking.

    I love cilantro.
    = I really love cilantro
    = User loves cilantro
    # I hate cilantro.
    # I love celery.

    I prefer tea over coffee.
    = I'd rather drink tea than coffee
    = I prefer tea to coffee
    # I prefer coffee over tea.
    # I prefer green tea over black tea.

    I'm going through a divorce.
    = I am going through a divorce
    = The user is going through a divorce
    # I'm going through an interview process.
    # My parents are going through a divorce.

    My password manager is KeePass.
    = I use KeePass as my password manager
    = The user's password manager is KeePass
    # My password manager is Bitwarden.
    # I use KeePass at work only for shared accounts of my team.

    I have two kids.
    = I have two children
    = I've got 2 kids
    = The user has two kids
    # I have three kids.
    # I have two cats.
    # My boss has two kids.

    My meeting with Sara is at noon on Friday.
    = I meet Sara on Friday at noon
    = The user's meeting with Sara is at noon on Friday
    # My meeting with Sara is at noon on Thursday.
    # My meeting with Tara is at noon on Friday.
    # My meeting with Sara is at ten on Friday.

    I failed my driving test.
    = I've failed my driving test
    = The user failed their driving test
    # I passed my driving test.
    # I failed my swimming test.

    I am gay.
    = I'm gay
    = The user is gay
    # I am straight.
    # My brother is gay.

    Our staging database is on port 5433.
    = The staging database of ours is on port 5433
    = The user's staging database runs on port 5433
    # Our staging database is on port 5432.
    # Our production database is on port 5433.

    I was fired last month.
    = I got fired last month
    = The user was fired last month
    # I was hired last month.
    # I was promoted last month.
    # My colleague was fired last month.

    I speak Russian and Polish.
    = I speak Polish and Russian
    = The user speaks Russian and Polish
    # I speak Russian and Czech.
    # I don't speak Russian.

    I'm training for a marathon in April.
    = I am training for a marathon in April
    = The user is training for a marathon in April
    # I'm training for a marathon in May.
    # I'm training for a triathlon in April.
    # I finished a marathon in April.

    My mother lives in Porto.
    = My mum lives in Porto
    = The user's mother lives in Porto
    # My father lives in Porto.
    # My mother lives in Faro.
    # My mother works in Porto.

    I drink too much.
    = I'm drinking too much
    = The user drinks too much
    # I work too much.
    # I don't drink.

    I bought a house for 420,000.
    = I've bought a house for 420,000
    = The user bought a house for 420,000
    # I sold a house for 420,000.
    # I bought a house for 240,000.
    # I bought a boat for 42,000.

    I am a vegetarian.
    = I'm vegetarian
    = The user is a vegetarian
    # I am a vegan.
    # I am a veterinarian.
    # My girlfriend is a vegetarian.

    Please always answer me in French.
    = Always answer in French
    = Answer me in French, always
    # Please always answer me in German.
    # Never answer me in French.

    I have an appointment with a therapist on Tuesdays.
    = On Tuesdays I have an appointment with a therapist
    = The user has an appointment with a therapist on Tuesdays
    # I have an appointment with a dentist on Tuesdays.
    # I have an appointment with a therapist on Mondays.

    My phone number ends in 4471.
    = My number ends in 4471
    = The user's phone number ends in 4471
    # My phone number ends in 4417.
    # My card number ends in 4471.

    I support Benfica.
    = I'm a Benfica supporter
    = The user supports Benfica
    # I support Boavista.
    # I can't stand Benfica.

    I failed the audit in 2023.
    = In 2023 I failed the audit
    = The user failed the audit in 2023
    # I failed the audit in 2024.
    # I passed the audit in 2023.

    My husband lost his job.
    = My husband has lost his job
    = The user's husband lost his job
    # My husband lost his keys.
    # My brother lost his job.
    # My husband found a job.

    I believe in astrology.
    = I do believe in astrology
    = The user believes in astrology
    # I don't believe in astrology.
    # I believe in astronomy education.

    The release is planned for 12 March.
    = The release is planned for March 12
    = Our release is scheduled for 12 March
    # The release is planned for 21 March.
    # The release party is planned for 12 March.
    # The release was cancelled on 12 March.

    I never eat breakfast.
    = I don't eat breakfast
    = The user never eats breakfast
    # I always eat breakfast.
    # I never eat dinner.
    """
)
"""The rules were written with these in view."""

UNSEEN: Final = _cases(
    """
    I have ADHD.
    = I've got ADHD
    = The user has ADHD
    = I was told that I have ADHD
    # My son has ADHD.
    # I don't have ADHD.

    I got a speeding ticket in Ghent.
    = In Ghent I got a speeding ticket
    = The user got a speeding ticket in Ghent
    # I got a speeding ticket in Genoa.
    # I got a parking ticket in Ghent.

    My credit score is 610.
    = I have a credit score of 610
    = The user's credit score is 610
    # My credit score is 160.
    # My credit limit is 610.

    I'm seeing a married man.
    = I am seeing a married man
    = I date a married man
    # I'm seeing a married couple about the house.
    # My friend is seeing a married man.

    I can't stand my mother-in-law.
    = I cannot stand my mother-in-law
    = The user can't stand their mother-in-law
    # I can't stand my brother-in-law.
    # My mother-in-law can't stand me.

    Our CI runs on Jenkins.
    = We run our CI on Jenkins
    = The user's CI runs on Jenkins
    # Our CI runs on Buildkite.
    # Our CD runs on Jenkins.
    # We moved our CI off Jenkins.

    I sold my shares in Globex in May.
    = In May I sold my Globex shares
    = The user sold their shares in Globex in May
    # I bought shares in Globex in May.
    # I sold my shares in Initech in May.

    I have insomnia since the accident.
    = Since the accident I have insomnia
    = The user has had insomnia since the accident
    # I have back pain since the accident.
    # My wife has insomnia since the accident.

    My manager is Olga.
    = Olga is my manager
    = The user's manager is Olga
    # My manager is Helga.
    # Olga's manager is Tom.

    I report to Priya.
    = I'm reporting to Priya
    = The user reports to Priya
    # Priya reports to me.
    # I report to Pavel.

    I was adopted.
    = I am adopted
    = The user was adopted
    # I adopted a dog.
    # My cousin was adopted.

    We are moving to Leeds in autumn.
    = In autumn we're moving to Leeds
    = The user is moving to Leeds in autumn
    # We are moving to Hull in autumn.
    # We are moving to Leeds in spring.

    I drive a 2009 Golf.
    = I'm driving a Golf from 2009
    = The user drives a 2009 Golf
    # I drive a 2019 Golf.
    # My father drives a 2009 Golf.

    I spent a year in prison.
    = I was in prison for a year
    = The user spent a year in prison
    # I spent a year in Paris.
    # My uncle spent a year in prison.

    The alarm code is behind the fridge.
    = Behind the fridge is the alarm code
    # The alarm code is behind the painting.
    # The spare key is behind the fridge.

    I miss my ex.
    = I'm missing my ex
    = The user misses their ex
    # My ex misses me.
    # I miss my dog.

    My sister doesn't talk to me.
    = My sister isn't talking to me
    = The user's sister does not talk to them
    # I don't talk to my sister.
    # My sister talks to me.

    I don't believe in God.
    = I do not believe in God
    = The user doesn't believe in God
    # I believe in God.
    # My parents don't believe in God.

    I'm on sick leave until June.
    = Until June I'm on sick leave
    = The user is on sick leave until June
    # I'm on sick leave until July.
    # I'm on parental leave until June.

    I work night shifts at the hospital.
    = At the hospital I work night shifts
    = The user works night shifts at the hospital
    # I work day shifts at the hospital.
    # I work night shifts at the port.

    We keep backups in Frankfurt for 30 days.
    = Our backups are kept in Frankfurt for 30 days
    = Backups are kept for 30 days in Frankfurt
    # We keep backups in Frankfurt for 13 days.
    # We keep backups in Dublin for 30 days.

    Call me Max.
    = You can call me Max
    = Please call me Max
    # Call me Alex.
    # Call Max.

    My flight to Oslo leaves at 7.
    = My Oslo flight leaves at 7
    = The user's flight to Oslo leaves at 7
    # My flight from Oslo leaves at 9.
    # My train to Oslo leaves at 7.

    I'm bad with money.
    = I am bad with money
    = The user is bad with money
    # I'm good with money.
    # My son is bad with money.

    I lost 20,000 on crypto.
    = I've lost 20,000 on crypto
    = On crypto I lost 20,000
    # I made 20,000 on crypto.
    # I lost 2,000 on crypto.
    """
)
"""These were written before anything was measured with them, and no rule was changed for one of them."""
